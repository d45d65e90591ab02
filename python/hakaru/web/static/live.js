// The run in progress: draws the states that the server sends. Texts of a run are only ever set as
// text, never as HTML.
"use strict";

(() => {
  const texts = JSON.parse(document.getElementById("texts").textContent);
  const language = document.documentElement.lang;
  const byId = (id) => document.getElementById(id);
  const format = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
  const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
  const number = (value) => (value === null ? "–" : Math.abs(value) >= 100 ? whole.format(value) : format.format(value));
  const charts = new Map();
  let state = null;

  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  const clock = (seconds) => {
    const rest = Math.max(0, Math.round(seconds));
    const two = (n) => String(n).padStart(2, "0");
    const [hours, minutes] = [Math.floor(rest / 3600), Math.floor(rest / 60) % 60];
    return hours ? `${hours}:${two(minutes)}:${two(rest % 60)}` : `${minutes}:${two(rest % 60)}`;
  };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const options = (width, height) => ({
    width,
    height,
    legend: { show: false },
    cursor: { show: false },
    select: { show: false },
    padding: [6, 8, 8, 0],
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { show: false },
      {
        stroke: colour("--quiet"),
        font: "11px system-ui, sans-serif",
        grid: { stroke: colour("--hair"), width: 1 },
        ticks: { show: false },
        size: 46,
        gap: 4,
        space: 26,
        values: (_, ticks) => ticks.map(number),
      },
    ],
    series: [{}, { stroke: colour("--accent"), fill: colour("--fill"), width: 1.5, points: { show: false } }],
  });

  // Draws one series. A chart is kept while its name stays, so that it does not flicker.
  const chart = (box, key, name, at, values, height) => {
    let known = charts.get(key);
    if (!known) {
      const card = make("div", "chart");
      const head = make("p");
      const value = make("b");
      head.append(make("span", "", name), value);
      const place = make("div");
      card.append(head, place);
      box.append(card);
      known = { card, value, place, plot: null, height };
      charts.set(key, known);
      resized.observe(place);
    }
    known.value.textContent = values.length ? number(values[values.length - 1]) : "–";
    known.data = [at, values];
    if (known.plot) known.plot.setData(known.data);
  };

  // A chart is as wide as its place, from the first layout on.
  const fit = (known) => {
    const width = known.place.clientWidth;
    if (width === 0) return;
    if (!known.plot) known.plot = new uPlot(options(width, known.height), known.data, known.place);
    else if (known.plot.width !== width) known.plot.setSize({ width, height: known.height });
  };
  const resized = new ResizeObserver(() => charts.forEach(fit));

  // Colours are those of the time when a chart was made.
  const recolour = () => {
    for (const known of charts.values()) {
      if (known.plot) known.plot.destroy();
      known.plot = null;
      fit(known);
    }
  };

  const drawSeries = (kind, height) => {
    const seen = new Set();
    for (const { name, values } of state.series[kind]) {
      seen.add(`${kind} ${name}`);
      chart(byId(kind), `${kind} ${name}`, name, state.series.at, values, height);
    }
    for (const [key, known] of charts) {
      if (key.startsWith(`${kind} `) && !seen.has(key)) {
        if (known.plot) known.plot.destroy();
        resized.unobserve(known.place);
        known.card.remove();
        charts.delete(key);
      }
    }
  };

  const caveats = (row) => {
    const place = make("td", "words");
    if (row.caveats.length) {
      const details = make("details");
      details.append(make("summary", "", String(row.caveats.length)));
      const list = make("ul");
      list.append(...row.caveats.map((text) => make("li", "", text)));
      details.append(list);
      place.append(details);
    }
    return place;
  };

  let drawnPoints = "";
  const drawPoints = () => {
    // Redrawing would close the caveats that somebody reads.
    const now = JSON.stringify([state.points, state.result, state.tail, state.others]);
    if (now === drawnPoints) return;
    drawnPoints = now;
    const open = new Set([...document.querySelectorAll("#points tr:has(details[open])")].map((row) => row.dataset.id));
    const head = make("tr");
    head.append(make("th", "", texts.point), make("th", "", texts.repetitions), make("th", "", state.result));
    if (state.tail) head.append(make("th", "", state.tail));
    head.append(make("th", "words", texts.bottleneck), make("th", "words", texts.caveats));
    head.append(...state.others.map((title) => make("th", "", title)));
    byId("points").tHead.replaceChildren(head);
    const rows = state.points.map((row) => {
      const line = make("tr", row.is_current ? "current" : row.done ? "" : "waiting");
      if (!row.valid) line.classList.add("invalid");
      line.dataset.id = row.id;
      const title = make("th", "", row.name);
      title.scope = "row";
      line.append(title, make("td", "", `${row.done}/${row.planned}`), make("td", "", row.result));
      if (state.tail) line.append(make("td", "", row.tail));
      line.append(make("td", "words", row.limiter), caveats(row), ...row.others.map((text) => make("td", "", text)));
      const details = line.querySelector("details");
      if (details && open.has(row.id)) details.open = true;
      return line;
    });
    byId("points").tBodies[0].replaceChildren(...rows);
  };

  const drawLeft = () => {
    if (!state) return;
    const left = state.left_s ? state.left_s - Math.max(0, Date.now() / 1000 - state.at) : 0;
    byId("left").textContent = state.left_s && !state.is_complete ? texts.left.replace("{time}", clock(left)) : "";
  };

  const draw = () => {
    byId("none").hidden = state !== null;
    byId("shown").hidden = state === null;
    if (state === null) return;
    const link = make("a", "", state.run);
    link.href = `/runs/${encodeURIComponent(state.run)}?lang=${language}`;
    byId("run").replaceChildren(state.has_ended ? link : state.run);
    byId("title").textContent = state.title;
    byId("progress").max = Math.max(1, state.total);
    byId("progress").value = state.done;
    byId("done").textContent = `${state.done}/${state.total}`;
    byId("status").textContent = state.status_text;
    byId("now").textContent = [state.detail, state.now].filter(Boolean).join(": ");
    drawSeries("rates", 120);
    drawSeries("queues", 80);
    byId("queues-title").hidden = state.series.queues.length === 0;
    drawPoints();
    drawLeft();
  };

  const source = new EventSource(`/events?lang=${language}`);
  source.onmessage = (message) => {
    byId("lost").hidden = true;
    state = JSON.parse(message.data);
    draw();
  };
  source.onerror = () => {
    byId("lost").hidden = false;
  };
  setInterval(drawLeft, 1000);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
})();
