#!/usr/bin/busybox sh
# Process 1 of a guest. Mounts the file systems, loads the drivers, then runs commands from the host
# until the host disappears or sends `off`. A line `ID SECONDS SCRIPT` (script in base64) is
# answered by a line `ID STATUS OUTPUT` (output in base64). machine.py is the host's end. Kernel
# messages use the serial console, commands a virtio port of their own.
export PATH=/usr/sbin:/usr/bin HOME=/root
# Programs that Debian has already installed stay.
/usr/bin/busybox --install -s /usr/bin 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/shm /run/lock/iscsi /mnt
ln -s /proc/self/fd /dev/fd
ln -s /run /var/run
echo 1 >/proc/sys/kernel/panic_on_oops

# A missing driver of a NIC is reported by the host, which waits for the interface.
drivers=$(sed -n 's/.*hakaru\.drivers=\([^ ]*\).*/\1/p' /proc/cmdline | tr , ' ')
for module in @MODULES@ $drivers; do modprobe "$module"; done
hostname "$(sed -n 's/.*hakaru\.name=\([^ ]*\).*/\1/p' /proc/cmdline)"
ip link set lo up

port=
# The port appears a moment after its driver.
while [ -z "$port" ]; do
    for found in /sys/class/virtio-ports/*; do
        [ "$(cat "$found/name" 2>/dev/null)" = hakaru ] && port=/dev/${found##*/}
    done
    usleep 20000
done
exec 3<>"$port"
echo "ready $(uname -r)" >&3
while read -r id seconds script <&3; do
    [ "$id" = off ] && break
    echo "$script" | base64 -d >/run/script
    timeout -s KILL "$seconds" /usr/bin/dash /run/script >/run/output 2>&1 </dev/null 3>&-
    status=$?
    printf '%s %s ' "$id" "$status" >&3
    base64 -w 0 /run/output >&3
    echo >&3
done
sync
poweroff -f
