// What a served page does besides being read: draws figures when they are seen, follows a run, moves a threshold.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const all = (what, where = document) => [...where.querySelectorAll(what)];

  // figures: plotly is a third of a megabyte, so it comes with the first figure that is seen

  let plotly;
  function needPlotly() {
    plotly ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = "/static/plotly.js";
      script.onload = done;
      script.onerror = failed;
      document.head.append(script);
    });
    return plotly;
  }

  const drawn = new WeakSet();
  async function draw(figure) {
    if (drawn.has(figure)) return;
    drawn.add(figure);
    try {
      await needPlotly();
    } catch {
      plotly = undefined; // the line was gone: when it is back, the figure is seen again
      drawn.delete(figure);
      seen.observe(figure);
      return;
    }
    window.figures.draw(figure);
    figure.dataset.drawn = "";
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries)
      if (entry.isIntersecting) {
        seen.unobserve(entry.target);
        draw(entry.target);
      }
  }, { rootMargin: "200px" });
  const watch = (where) => all("figure[data-plot]", where).forEach((figure) => seen.observe(figure));

  const again = () => all("figure[data-drawn]").forEach((figure) => figure.redraw?.());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  addEventListener("beforeprint", () => {
    all("figure[data-plot]").forEach(draw);
    again();
  });
  addEventListener("afterprint", again);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.png");
    if (!button) return;
    const figure = button.closest("figure");
    await draw(figure);
    Plotly.downloadImage(figure.querySelector(".canvas"), { format: "png", width: 960, height: 560, scale: 2, filename: button.dataset.name });
  });

  // news: what is new replaces what it is the news of, and nothing else, so that nobody loses their place

  const GAP = 2500; // milliseconds between two askings for news
  let last = 0;
  let planned = 0;
  let mark = "";

  // who cannot see it is told of states and people, by words marked for that, and not of every round
  const spoken = (text) => text.replace(/\d+/g, "");
  let told = "";
  function tell() {
    const now = all("[data-say]").map((node) => node.textContent).join(". ");
    if (spoken(now) !== spoken(told)) $("heard").textContent = now;
    told = now;
  }

  function replace(now, next) {
    if (!now || now.innerHTML === next.innerHTML || now.contains(document.activeElement)) return;
    const ticked = all("input:checked", now).map((box) => box.value);
    now.innerHTML = next.innerHTML;
    for (const box of all("input[type=checkbox]", now)) box.checked ||= ticked.includes(box.value);
  }

  function patch(fresh) {
    for (const next of all("[data-live], #standing, #happened", fresh)) replace($(next.id), next);
    for (const next of all(".pictures", fresh)) {
      const now = $(next.id);
      const names = (where) => all("figure", where).map((f) => `${f.id} ${f.querySelector("select")?.innerHTML ?? ""}`).join();
      if (!now) continue;
      if (names(now) !== names(next)) {
        now.replaceChildren(...next.childNodes);
        watch(now);
        continue;
      }
      for (const data of all("script", next)) {
        const old = $(data.id);
        if (old.textContent === data.textContent) continue;
        old.textContent = data.textContent;
        const figure = now.querySelector(`figure[data-plot="${data.id}"]`);
        if (drawn.has(figure)) figure.redraw?.(JSON.parse(data.textContent));
      }
    }
    const widget = fresh.querySelector("#threshold");
    if (widget && !$("threshold")) {
      $("said-gain").after(widget);
      threshold();
    } else if (widget) {
      $("cut-data").textContent = widget.querySelector("#cut-data").textContent;
      $("cut").dispatchEvent(new Event("input"));
    }
    narrow();
    tell();
  }

  async function refresh() {
    const from = document.querySelector("[data-refresh]")?.dataset.refresh;
    planned = 0;
    if (!from || document.hidden) return;
    last = performance.now();
    try {
      const answer = await fetch(from, { headers: mark ? { "If-None-Match": mark } : {} });
      if (answer.status !== 200) return;
      mark = answer.headers.get("ETag") ?? "";
      const fresh = document.createElement("template");
      fresh.innerHTML = await answer.text();
      patch(fresh.content);
    } catch {
      // the line is gone; the next news come when it is back
    }
  }

  function soon() {
    if (planned) return;
    const wait = Math.max(0, GAP + Math.random() * GAP * 0.4 - (performance.now() - last));
    planned = setTimeout(refresh, wait);
  }

  function follow(where) {
    const source = new EventSource(where);
    let version = -1;
    let warning;
    source.addEventListener("news", (event) => {
      const news = JSON.parse(event.data);
      const standing = $("standing");
      warning?.remove();
      warning = undefined;
      if (standing?.dataset.reload !== undefined && news.version > 0) {
        if (version >= 0 && news.version !== version) location.reload();
      } else if (standing && news.standing && standing.innerHTML !== news.standing) standing.innerHTML = news.standing;
      tell();
      if (news.version !== version) soon();
      version = news.version;
    });
    source.onerror = () => {
      if (warning) return;
      warning = document.createElement("p");
      warning.className = "lost";
      warning.setAttribute("role", "status");
      warning.textContent = document.body.dataset.lost;
      ($("standing") ?? document.querySelector("main")).after(warning);
      if (source.readyState === EventSource.CLOSED)
        setTimeout(() => {
          warning?.remove();
          follow(where);
        }, 3000);
    };
    document.addEventListener("visibilitychange", () => document.hidden || soon());
  }

  // a threshold that is moved by hand, over figures that the server has worked out at each of 101 places

  function threshold() {
    const range = $("cut");
    if (!range) return;
    const menu = $("threshold").querySelector("select");
    const write = () => {
      const told = JSON.parse($("cut-data").textContent);
      const one = told.classes[Number(menu?.value ?? 0)];
      const at = Number(range.value);
      const number = new Intl.NumberFormat(told.language, { style: "percent", maximumFractionDigits: 0 });
      const share = (side, name) => {
        const [value, low, high] = side[name].map((part) => part[at]);
        return value === null ? "–" : `${number.format(value)} (${number.format(low)} – ${number.format(high)})`;
      };
      $("cut-at").textContent = number.format(at / 100);
      range.setAttribute("aria-valuetext", number.format(at / 100));
      const sides = ["together", "alone"].filter((name) => one[name]);
      const cell = (kind, text) => {
        const made = document.createElement(kind);
        made.textContent = text;
        if (kind === "th") made.scope = "col";
        return made;
      };
      const row = (...cells) => {
        const made = document.createElement("tr");
        made.append(...cells);
        return made;
      };
      const head = document.createElement("thead");
      head.append(row(cell("td", ""), ...sides.map((name) => cell("th", told.words[name]))));
      const body = document.createElement("tbody");
      for (const name of ["sensitivity", "specificity"]) {
        const title = cell("th", told.words[name]);
        title.scope = "row";
        body.append(row(title, ...sides.map((side) => cell("td", share(one[side], name)))));
      }
      const worth = new Intl.NumberFormat(told.language, { minimumFractionDigits: 3, maximumFractionDigits: 3 });
      const benefit = cell("th", told.words.net_benefit);
      benefit.scope = "row";
      body.append(row(benefit, ...sides.map((side) => {
        const [own, all] = one[side].net_benefit.map((part) => part[at]);
        return cell("td", own === null ? "–" : `${worth.format(own)} (${told.words.treat_all} ${worth.format(all)})`);
      })));
      if ($("cut-table").textContent !== head.textContent + body.textContent) $("cut-table").replaceChildren(head, body);
      $("cut-said").textContent = `${told.words.sick} ${one.positive}, ${told.words.well} ${one.negative}`;
      const form = $("keep-cut");
      if (form) {
        form.elements.at.value = String(at / 100);
        form.elements.class.value = one.class;
      }
    };
    range.addEventListener("input", write);
    menu?.addEventListener("change", write);
    write();
  }

  // the gallery

  function narrow() {
    const rows = $("gallery")?.tBodies[0].rows;
    if (!rows) return;
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = $("kind").value;
    let n = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const shown = words.every((word) => text.includes(word)) && (!kind || row.dataset.kind === kind);
      row.hidden = !shown;
      n += shown;
    }
    const said = $("found").dataset.of.replace("{n}", n).replace("{of}", rows.length);
    if ($("found").textContent !== said) $("found").textContent = said;
  }

  for (const menu of all(".choose select")) menu.addEventListener("change", () => menu.form.requestSubmit());
  watch(document);
  threshold();
  $("filter")?.addEventListener("input", narrow);
  $("kind")?.addEventListener("change", narrow);
  narrow();
  told = all("[data-say]").map((node) => node.textContent).join(". ");
  if (document.body.dataset.news) follow(document.body.dataset.news);
})();
