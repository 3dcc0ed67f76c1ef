// Draws figures from the JSON beside them, in the colours of the page's style sheet. Needs Plotly; loads nothing.
// A report draws all at once; a page that is served draws each when it is seen, and again when there is news.
"use strict";
window.figures = (() => {
  const touch = matchMedia("(pointer: coarse)").matches;
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: touch ? false : "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    // by default plotly offers to upload the figure: nobody's data leaves this page
    showSendToCloud: false,
    plotlyServerURL: "",
  };
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = () => matchMedia("screen and (prefers-color-scheme: dark)").matches;

  function theme() {
    return {
      axis: { gridcolor: ink("--grid"), linecolor: ink("--edge"), zerolinecolor: ink("--edge"), automargin: true, ticks: "" },
      base: {
        font: { family: ink("--font"), size: 13, color: ink("--ink") },
        margin: { l: 56, r: 12, t: 12, b: 44 },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
        modebar: { bgcolor: "rgba(0,0,0,0)", color: ink("--soft"), activecolor: ink("--ink") },
        hoverlabel: { namelength: -1, bgcolor: ink("--paper"), font: { color: ink("--ink") } },
        // a finger that scrolls the page must not zoom the figure
        dragmode: touch ? false : "zoom",
      },
    };
  }

  // what is nearly black on paper is nearly white in the dark
  function lit(value) {
    if (!dark()) return value;
    if (value === "#333333" || value === "#333" || value === "#1f2933") return ink("--ink");
    if (Array.isArray(value)) return typeof value[0] === "object" && value[0] !== null ? value.map(lit) : value;
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, lit(v)]));
    return value;
  }

  const separators = { de: ",.", fr: ",\u202f" }; // before decimals and between thousands, as a language writes them

  function show(canvas, data, own) {
    // what a screen reader takes for one picture has no buttons inside
    const bar = canvas.getAttribute("role") === "img" ? { displayModeBar: false } : {};
    const written = { separators: separators[canvas.closest("[lang]").lang] ?? ".," };
    return Plotly.react(canvas, lit(data), { ...written, ...lit(layoutOf(own)) }, { ...config, ...bar });
  }

  function layoutOf(own) {
    const { axis, base } = theme();
    return {
      ...base,
      ...own,
      xaxis: { ...axis, ...own.xaxis },
      yaxis: { ...axis, ...own.yaxis },
      ...(own.yaxis2 && { yaxis2: { ...axis, ...own.yaxis2 } }),
    };
  }

  function drawChoices(figure, plot) {
    const canvas = figure.querySelector(".canvas");
    const menu = figure.querySelector("select.choice");
    const draw = () => {
      const choice = plot.choices[menu ? Math.min(Number(menu.value), plot.choices.length - 1) : 0];
      show(canvas, choice.data, choice.layout);
    };
    if (menu) menu.addEventListener("change", draw);
    figure.redraw = (news) => {
      if (news) plot = news;
      draw();
    };
    draw();
  }

  // the i-th number from 16-bit steps between low and high; 65535 is nothing
  function unpacked(run) {
    const bytes = Uint8Array.from(atob(run.packed), (c) => c.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return (i) => {
      const step = view.getUint16(2 * i, true);
      return step === 65535 ? null : run.low + (step / 65534) * (run.high - run.low);
    };
  }

  // [round, receiver, sender]
  function unpack(run, n) {
    const value = unpacked(run);
    return run.rounds.map((_, f) =>
      Array.from({ length: n }, (_, r) => Array.from({ length: n }, (_, s) => value((f * n + r) * n + s))),
    );
  }

  // plotly reads tags in names
  const plain = (name) => name.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  function drawMatrix(figure, plot) {
    const n = plot.names.length;
    const canvas = figure.querySelector(".canvas");
    const menu = figure.querySelector("select.run");
    const slider = figure.querySelector("input.round");
    const shown = figure.querySelector("output");
    const alone = figure.querySelector("input.self");
    const frames = new Map();
    // between groups of clients: on an axis of names, the n-th name is at n
    const border = { type: "line", line: { color: "#1f2933", width: 1.5 } };
    const borders = plot.edges.flatMap((at) => [
      { ...border, xref: "x", x0: at, x1: at, yref: "paper", y0: 0, y1: 1 },
      { ...border, xref: "paper", x0: 0, x1: 1, yref: "y", y0: at, y1: at },
    ]);

    function draw() {
      const run = plot.runs[Number(menu.value)];
      if (!frames.has(run)) frames.set(run, unpack(run, n));
      const all = frames.get(run);
      const without = alone?.checked ?? false;
      const clean = (rows) => (without ? rows.map((row, r) => row.map((v, s) => (r === s ? null : v))) : rows);
      let low = 0;
      let high = 0;
      for (const rows of all)
        for (const row of clean(rows))
          for (const v of row) {
            if (v > high) high = v;
            if (v < low) low = v;
          }
      const bound = Math.max(high, -low) || 1;
      const frame = slider ? Number(slider.value) : 0;
      if (slider) shown.textContent = `${run.rounds[frame]} of ${run.rounds[run.rounds.length - 1]}`;
      const most = slider ? "" : ` of ${run.of}`;
      const heat = {
        type: "heatmap",
        x: plot.names,
        y: plot.names,
        z: clean(all[frame]),
        zmin: low < 0 ? -bound : 0,
        zmax: bound,
        colorscale: low < 0 ? plot.signed : plot.scale,
        xgap: n <= 40 ? 1 : 0,
        ygap: n <= 40 ? 1 : 0,
        customdata: plot.full.map((to) => plot.full.map((from) => `${to} ${plot.said.pair} ${from}`)),
        hovertemplate: `%{customdata}<br>${plot.said.value} %{z:.4~g}${most}<extra></extra>`,
        hoverongaps: false,
        colorbar: { orientation: "h", x: 0.5, y: 1.01, yanchor: "bottom", thickness: 10, len: 1, outlinewidth: 0 },
      };
      const own = {
        xaxis: { type: "category", title: { text: plot.said.from }, showgrid: false, constrain: "domain" },
        yaxis: { type: "category", title: { text: plot.said.to }, showgrid: false, autorange: "reversed" },
        margin: { l: 56, r: 8, t: 8, b: 44 },
        plot_bgcolor: ink("--grid"),
        shapes: borders,
      };
      show(canvas, [heat], own);
    }

    function choose() {
      if (!slider) return draw();
      const last = plot.runs[Number(menu.value)].rounds.length - 1;
      slider.max = String(last);
      slider.value = String(last);
      slider.disabled = last === 0;
      draw();
    }

    menu.addEventListener("change", choose);
    slider?.addEventListener("input", draw);
    alone?.addEventListener("change", draw);
    choose();
  }

  // above: how the chosen client fares with each method; below: a line for each sender
  function drawTraces(figure, plot) {
    const canvas = figure.querySelector(".canvas");
    const menu = figure.querySelector("select.run");
    const who = figure.querySelector("select.client");

    const levels = [...new Set(plot.groups ?? [])].sort((a, b) => a - b);

    function scoreLines(run, client) {
      return plot.scores
        .filter((line) => line.seed === run.seed)
        .map((line) => ({
          type: "scatter",
          mode: line.rounds.length === 1 ? "markers" : "lines",
          x: line.rounds,
          y: line.values[client],
          name: plain(line.label),
          line: { color: line.colour, dash: line.dash, width: 2.2 },
          marker: { color: line.colour },
          hovertemplate: "round %{x}: %{y:.4~g}<extra>%{fullData.name}</extra>",
        }));
    }

    // many senders of one colour are one trace, its lines apart by a gap: a thousand stay quick
    function senderLines(run, receiver) {
      const value = unpacked(receiver);
      const many = run.senders.length > plot.few;
      const looks = new Map();
      run.senders.forEach((sender, s) => {
        const values = run.rounds.map((_, f) => value(f * run.senders.length + s));
        const own = sender === receiver.client;
        if ((own && !receiver.own) || values.every((v) => v === null)) return;
        const name = own ? `${plot.names[sender]} (itself)` : plot.names[sender];
        const key = own || !many ? name : plot.groups ? `group ${plot.groups[sender]}` : "others";
        if (!looks.has(key)) {
          const place = !many ? s : plot.groups ? levels.indexOf(plot.groups[sender]) : 0;
          const turn = Math.floor(place / plot.colours.length) % plot.dashes.length;
          const colour = own ? plot.alone : plot.colours[place % plot.colours.length];
          looks.set(key, {
            type: "scatter",
            mode: "lines+markers",
            yaxis: "y2",
            legend: "legend2",
            name: plain(key),
            legendrank: own ? 0 : place + 1,
            x: [],
            y: [],
            text: [],
            opacity: many && !own ? 0.55 : 1,
            line: { color: colour, dash: own ? "dash" : plot.dashes[turn], width: many && !own ? 1 : 1.8 },
            marker: { color: colour, size: many ? 2 : 4 },
            hovertemplate: "round %{x}: %{y:.3~g}<extra>%{text}</extra>",
          });
        }
        const trace = looks.get(key);
        trace.x.push(...run.rounds, null);
        trace.y.push(...values, null);
        trace.text.push(...run.rounds.map(() => plain(name)), "");
      });
      return [...looks.values()];
    }

    function draw() {
      const run = plot.runs[Number(menu.value)];
      const receiver = run.receivers.find((r) => r.client === Number(who.value));
      const last = Math.max(...plot.scores.flatMap((line) => line.rounds), ...run.rounds);
      const own = {
        xaxis: { title: { text: "round", standoff: 6 }, anchor: "y2", ...(last <= 10 && { dtick: 1 }) },
        yaxis: { title: { text: plot.metric }, domain: [0.54, 1] },
        yaxis2: { title: { text: plain(run.name) }, domain: [0, 0.46], rangemode: "tozero" },
        hovermode: "closest",
        legend2: { orientation: "h", x: 0, y: -0.16, yanchor: "top", traceorder: "normal" },
      };
      const data = [...scoreLines(run, receiver.client), ...senderLines(run, receiver)];
      show(canvas, data, own);
    }

    function choose() {
      const run = plot.runs[Number(menu.value)];
      const before = Number(who.value);
      const chosen = (r) => who.options.length > 0 && r.client === before;
      who.replaceChildren(
        ...run.receivers.map((r) => new Option(plot.names[r.client], r.client, false, chosen(r))),
      );
      draw();
    }

    menu.addEventListener("change", choose);
    who.addEventListener("change", draw);
    choose();
  }

  // the parameters of one client's model by feature, a bar for each method
  function drawFeatures(figure, plot) {
    const canvas = figure.querySelector(".canvas");
    const who = figure.querySelector("select.client");
    const which = figure.querySelector("select.output");
    const n = plot.features.length;

    function draw() {
      const output = which ? Number(which.value) : 0;
      const client = plot.clients[Number(who.value)];
      const rows = client.methods.map((packed, m) => {
        const value = unpacked(packed);
        const row = (stat) => Array.from({ length: n }, (_, f) => value((stat * plot.outputs.length + output) * n + f));
        return plot.methods[m].spread ? [row(0), row(1), row(2)] : [row(0)];
      });
      const size = plot.features.map((_, f) => Math.max(...rows.map(([mean]) => Math.abs(mean[f]))));
      const kept = plot.features
        .map((_, f) => f)
        .sort((a, b) => size[b] - size[a])
        .slice(0, plot.drawn)
        .sort((a, b) => a - b);
      // by place, not by name: two features may share one
      const places = kept.map((_, i) => i);
      const names = kept.map((f) => plot.features[f]);
      const data = rows.map(([mean, low, high], m) => ({
        type: "bar",
        orientation: "h",
        name: plot.methods[m].label,
        y: places,
        x: kept.map((f) => mean[f]),
        customdata: names,
        marker: { color: plot.methods[m].colour, pattern: { shape: plot.methods[m].hatch } },
        hovertemplate: "%{customdata}: %{x:.3~g}<extra>%{fullData.name}</extra>",
        ...(low && {
          error_x: {
            type: "data",
            symmetric: false,
            array: kept.map((f) => high[f] - mean[f]),
            arrayminus: kept.map((f) => mean[f] - low[f]),
            thickness: 1,
            width: 2,
            color: "#333",
          },
        }),
      }));
      const own = {
        barmode: "group",
        bargap: 0.2,
        xaxis: { title: { text: `${which ? "class " : ""}${plain(plot.outputs[output])}` }, zeroline: true },
        yaxis: { autorange: "reversed", showgrid: false, zeroline: false, tickvals: places, ticktext: names },
        hovermode: "closest",
      };
      show(canvas, data, own);
    }

    who.addEventListener("change", draw);
    if (which) which.addEventListener("change", draw);
    draw();
  }

  // sizes that a figure asks for; here, as a strict content policy lets no element bring a style
  function sized(figure, plot) {
    const canvas = figure.querySelector(".canvas");
    if (plot.least) canvas.style.minWidth = `${plot.least}px`;
    if (plot.height) canvas.style.height = `${plot.height}px`;
  }

  const kinds = { matrix: drawMatrix, traces: drawTraces, features: drawFeatures };

  const plotOf = (figure) => JSON.parse(document.getElementById(figure.dataset.plot).textContent);

  function draw(figure) {
    const plot = plotOf(figure);
    sized(figure, plot);
    (kinds[plot.kind] ?? drawChoices)(figure, plot);
  }

  if (window.Plotly) document.querySelectorAll("figure[data-plot]").forEach(draw);
  return { draw, plotOf };
})();
