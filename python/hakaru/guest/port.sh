#!/usr/bin/dash
# Runs a program of hakaru on a virtio port: hakaru-port PORT ID PROGRAM ARGUMENT…
#
# The port outlives programs, so it may still hold input for an earlier one. The host therefore
# begins with a line `begin ID`, and everything before it is discarded. A line `exit STATUS STDERR`
# (the end of stderr in base64) follows the program's output. The host answers it by `end ID`, and
# the port stays open until then, so that no output is lost. port.py is the host's end.
name=$1 id=$2
shift 2
port=
for found in /sys/class/virtio-ports/*; do
    [ "$(cat "$found/name" 2>/dev/null)" = "$name" ] && port=/dev/${found##*/}
done
exec 4<>"$port"
# The shell reads bytes one by one, so that no input of the program is lost.
wait_for() {
    while IFS= read -r line <&4; do
        [ "$line" = "$1 $id" ] && break
    done
}
wait_for begin
"$@" <&4 >&4 2>"/run/$name.stderr" 4>&- &
program=$!
echo $program >"/run/$name.pid"
wait $program
status=$?
rm -f "/run/$name.pid"
printf '\nexit %s %s\n' "$status" "$(tail -c 8000 "/run/$name.stderr" | base64 -w 0)" >&4
wait_for end
