// Draws every figure of the page from the JSON beside it. Needs Plotly; loads nothing.
"use strict";
(() => {
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
  const axis = { gridcolor: "#e4e8ec", linecolor: "#9aa5b1", zerolinecolor: "#9aa5b1", automargin: true, ticks: "" };
  const base = {
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 13, color: "#1f2933" },
    margin: { l: 56, r: 12, t: 12, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
    modebar: { bgcolor: "rgba(255,255,255,0.85)", color: "#7b8794", activecolor: "#1f2933" },
    hoverlabel: { namelength: -1 },
    // a finger that scrolls the page must not zoom the figure
    dragmode: touch ? false : "zoom",
  };

  function layoutOf(own) {
    return {
      ...base,
      ...own,
      xaxis: { ...axis, ...own.xaxis },
      yaxis: { ...axis, ...own.yaxis },
    };
  }

  function drawChoices(figure, plot) {
    const canvas = figure.querySelector(".canvas");
    const menu = figure.querySelector("select.choice");
    const draw = () => {
      const choice = plot.choices[menu ? Number(menu.value) : 0];
      Plotly.react(canvas, choice.data, layoutOf(choice.layout), config);
    };
    if (menu) menu.addEventListener("change", draw);
    draw();
  }

  // [round, receiver, sender] from 16-bit steps between low and high; 65535 is nothing
  function unpack(run, n) {
    const bytes = Uint8Array.from(atob(run.packed), (c) => c.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const value = (i) => {
      const step = view.getUint16(2 * i, true);
      return step === 65535 ? null : run.low + (step / 65534) * (run.high - run.low);
    };
    return run.rounds.map((_, f) =>
      Array.from({ length: n }, (_, r) => Array.from({ length: n }, (_, s) => value((f * n + r) * n + s))),
    );
  }

  function drawMatrix(figure, plot) {
    const n = plot.names.length;
    const canvas = figure.querySelector(".canvas");
    const menu = figure.querySelector("select.run");
    const slider = figure.querySelector("input.round");
    const shown = figure.querySelector("output");
    const alone = figure.querySelector("input.self");
    const frames = new Map();

    function draw() {
      const run = plot.runs[Number(menu.value)];
      if (!frames.has(run)) frames.set(run, unpack(run, n));
      const all = frames.get(run);
      const without = alone.checked;
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
      const frame = Number(slider.value);
      shown.textContent = `${run.rounds[frame]} of ${run.rounds[run.rounds.length - 1]}`;
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
        customdata: plot.full.map((to) => plot.full.map((from) => `${to} listens to ${from}`)),
        hovertemplate: "%{customdata}<br>weight %{z:.3~g}<extra></extra>",
        hoverongaps: false,
        colorbar: { orientation: "h", x: 0.5, y: 1.01, yanchor: "bottom", thickness: 10, len: 1, outlinewidth: 0 },
      };
      const own = {
        xaxis: { type: "category", title: { text: "is listened to" }, showgrid: false, constrain: "domain" },
        yaxis: { type: "category", title: { text: "listens" }, showgrid: false, autorange: "reversed" },
        margin: { l: 56, r: 8, t: 8, b: 44 },
        plot_bgcolor: "#f1f3f5",
      };
      Plotly.react(canvas, [heat], layoutOf(own), config);
    }

    function choose() {
      const last = plot.runs[Number(menu.value)].rounds.length - 1;
      slider.max = String(last);
      slider.value = String(last);
      slider.disabled = last === 0;
      draw();
    }

    menu.addEventListener("change", choose);
    slider.addEventListener("input", draw);
    alone.addEventListener("change", draw);
    choose();
  }

  for (const figure of document.querySelectorAll("figure[data-plot]")) {
    const plot = JSON.parse(document.getElementById(figure.dataset.plot).textContent);
    (plot.runs ? drawMatrix : drawChoices)(figure, plot);
  }
})();
