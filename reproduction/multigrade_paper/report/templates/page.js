"use strict";
// The page's behaviour. All text and all numbers are in the page already; nothing is fetched, nothing is evaluated,
// and text from records only ever becomes textContent.
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const colour = (role) => getComputedStyle(root).getPropertyValue(`--${role}`).trim();
  const number = (value) => (Number.isFinite(value) ? Number(value.toPrecision(4)).toString() : "no number");
  const kept = {
    get(name) { try { return localStorage.getItem(name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(name, value); } catch { /* a browser that keeps nothing for files */ } },
  };

  // ---- theme: the system's unless the reader chose ----------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  function setTheme(theme) {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light colours" : "Dark colours";
    for (const chart of drawn) render(chart);
  }
  const chosenTheme = () => kept.get("multigrade-theme") ?? (dark.matches ? "dark" : "light");
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    kept.set("multigrade-theme", theme);
    setTheme(theme);
  });
  dark.addEventListener("change", () => setTheme(chosenTheme()));

  // ---- charts: drawn when they come into view -----------------------------------------------------------------------

  const drawn = new Set();
  const SYMBOLS = { sgdl: "square", mgdl: "circle", msdl: "diamond", target: "circle-open" };
  const DASHES = ["dash", "dot", "dashdot", "longdash"];

  function floats(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  }

  function open(element) {
    const chart = JSON.parse(element.querySelector("script").textContent);
    for (const line of chart.lines) [line.x, line.y] = [floats(line.x), floats(line.y)];
    const seen = chart.spectra;
    if (seen) for (const name of ["at", "step", "grade", "values", "loss"]) seen[name] = floats(seen[name]);
    chart.element = element;
    chart.plot = element.querySelector(".plot");
    chart.isLog = chart.log_y;
    chart.index = seen ? seen.at.length - 1 : 0;
    connect(chart);
    return chart;
  }

  function connect(chart) {
    const log = chart.element.querySelector(".log");
    log?.addEventListener("click", () => {
      chart.isLog = !chart.isLog;
      log.setAttribute("aria-pressed", chart.isLog);
      render(chart);
    });
    const scrub = chart.element.querySelector(".scrub input");
    scrub?.addEventListener("input", () => {
      chart.index = Number(scrub.value);
      render(chart);
    });
  }

  function traces(chart) {
    const last = Math.max(...chart.lines.map((line) => line.x.reduce((a, b) => (b > a ? b : a), -Infinity)));
    const first = Math.min(...chart.lines.map((line) => line.x.reduce((a, b) => (b < a ? b : a), Infinity)));
    const made = chart.lines.map((line) => ({
      type: "scatter", name: plain(line.name), x: line.x, y: line.y, showlegend: line.is_legend, legendgroup: line.role,
      mode: line.role === "target" && line.has_markers ? "markers" : line.has_markers ? "lines+markers" : "lines",
      line: { color: colour(line.role), width: line.role === "target" ? 4 : line.is_legend ? 1.6 : 1 },
      opacity: line.is_legend ? 1 : 0.55,
      marker: { color: colour(line.role), size: 8, symbol: SYMBOLS[line.role] ?? "circle" },
      hovertemplate: `%{y:.4g} at %{x:,.6~g}<extra>${plain(line.name)}</extra>`,
    }));
    chart.levels.forEach(([value, name], index) => made.push({
      type: "scatter", name: plain(name), x: [first, last], y: [value, value], mode: "lines", hoverinfo: "name",
      line: { color: colour("level"), width: 1.3, dash: DASHES[index % DASHES.length] },
    }));
    for (const role of new Set(chart.lost.map((point) => point[1]))) {
      const points = chart.lost.filter((point) => point[1] === role);
      made.push({
        type: "scatter", name: `${plain(role.toUpperCase())} diverged (NaN)`, mode: "markers", yaxis: "y2",
        x: points.map((point) => point[0]), y: points.map(() => (role === "sgdl" ? 0.96 : 0.9)),
        text: points.map((point) => plain(point[2])), hovertemplate: "%{text}<extra></extra>",
        marker: { symbol: "x", size: 10, color: colour(role) },
      });
    }
    return chart.spectra ? [...made, ...moment(chart)] : made;
  }

  // Plotly reads a few tags, links among them, and %{...} in its texts; those of records must stay as they are written.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "% {");

  function moment(chart) {
    const { values, num } = chart.spectra;
    const at = values.subarray(chart.index * 2 * num, (chart.index + 1) * 2 * num);
    const indices = Array.from({ length: num }, (_, index) => index);
    return [["smallest", at.subarray(0, num)], ["largest", at.subarray(num)]].map(([role, y]) => ({
      type: "scatter", mode: "markers", x: indices, y, xaxis: "x2", showlegend: false,
      marker: { color: colour(role), size: 6, symbol: role === "smallest" ? "circle" : "square" },
      hovertemplate: `${role}, index %{x}: %{y:.5g}<extra></extra>`,
    }));
  }

  function shapes(chart) {
    const vertical = (x, dash, width) => ({
      type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: { color: colour("soft"), dash, width },
    });
    const made = chart.grades.slice(1).map(([x]) => vertical(x, "dot", 1));
    if (chart.band) {
      const across = { xref: "paper", yref: "y", x0: 0, x1: 1, layer: "below" };
      made.push({ ...across, type: "rect", y0: -1, y1: 1, fillcolor: `rgba(${colour("band")}, 0.13)`, line: { width: 0 } });
      for (const y of [-1, 1])
        made.push({ ...across, type: "line", y0: y, y1: y, line: { color: `rgb(${colour("band")})`, width: 1, dash: "dash" } });
      made.push(vertical(chart.spectra.at[chart.index], "solid", 1.5));
    }
    return made;
  }

  function layout(chart) {
    const axis = { gridcolor: colour("grid"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
    const made = {
      width: chart.plot.clientWidth, height: chart.plot.clientHeight, margin: { l: 58, r: 10, t: 8, b: 42 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", uirevision: chart.isLog, hovermode: "closest",
      font: { color: colour("ink"), size: 12, family: getComputedStyle(document.body).fontFamily },
      hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("ink") } },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
      xaxis: { ...axis, title: { text: chart.x_label, standoff: 6 }, type: chart.log_x ? "log" : "linear" },
      yaxis: { ...axis, title: { text: chart.y_label, standoff: 6 }, type: chart.isLog ? "log" : "linear",
               exponentformat: "power" },
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
      shapes: shapes(chart),
      annotations: chart.grades.map(([x, text]) => ({
        x, y: 0, xref: "x", yref: "paper", text, showarrow: false, xanchor: "left", yanchor: "bottom",
        font: { size: 10, color: colour("soft") },
      })),
    };
    if (chart.spectra) {
      made.xaxis.domain = [0, 0.79];
      made.xaxis2 = { ...axis, domain: [0.83, 1], anchor: "y", title: { text: "index", standoff: 6 }, dtick: 5 };
    }
    return made;
  }

  function render(chart) {
    Plotly.react(chart.plot, traces(chart), layout(chart), {
      displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], plotlyServerURL: "",
    });
    if (chart.spectra) tell(chart);
  }

  function tell(chart) {
    const { values, num, grade, step, loss } = chart.spectra;
    const at = values.subarray(chart.index * 2 * num, (chart.index + 1) * 2 * num);
    const below = at.subarray(0, num).filter((value) => value <= -1).length;
    const where = grade[grade.length - 1] > 1 ? `Grade ${grade[chart.index]}, epoch` : "Epoch";
    const text = `${where} ${step[chart.index].toLocaleString("en")}: smallest ${number(at[0])}, ` +
      `largest ${number(at[num])}; ${below} of ${num} at or below −1; loss ${number(loss[chart.index])}`;
    chart.element.querySelector(".scrub output").textContent = text;
    chart.element.querySelector(".scrub input").setAttribute("aria-valuetext", text);
  }

  // The drawing library is most of the page's size: it is started with the first chart, so that reading can start before.
  function startLibrary() {
    if (window.Plotly) return;
    const script = document.createElement("script");
    script.textContent = document.getElementById("plotly").textContent;
    document.head.append(script);
  }

  function draw(element) {
    if (element.dataset.state) return;
    startLibrary();
    element.dataset.state = "drawn";
    const chart = open(element);
    drawn.add(chart);
    render(chart);
    sizes.observe(chart.plot);
  }

  const sizes = new ResizeObserver((entries) => {
    for (const chart of drawn)
      if (entries.some((entry) => entry.target === chart.plot) && chart.plot.clientWidth
          && chart.plot.layout?.width !== chart.plot.clientWidth) render(chart);
  });
  const views = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { draw(entry.target); views.unobserve(entry.target); }
  }, { rootMargin: "300px" });

  // ---- pictures -------------------------------------------------------------------------------------------------------

  let parsed = null;
  const picture = (digest) => (parsed ??= JSON.parse(document.getElementById("pictures").textContent))[digest];

  function load(digest) {
    return new Promise((resolve, reject) => {
      const image = new Image();
      image.onload = () => resolve(image);
      image.onerror = () => reject(new Error("a picture of this page cannot be read"));
      image.src = picture(digest);
    });
  }

  function samples(image) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, canvas.width, canvas.height);
  }

  const FULL_ERROR = 0.2 * 255;
  // Black, purple, orange, pale yellow: brightness rises with the error.
  const STOPS = [[0, 0, 4], [81, 18, 124], [183, 55, 121], [252, 137, 97], [252, 253, 191]];

  function heat(share) {
    const place = Math.min(share, 1) * (STOPS.length - 1);
    const index = Math.min(Math.floor(place), STOPS.length - 2);
    return STOPS[index].map((start, channel) => start + (place - index) * (STOPS[index + 1][channel] - start));
  }

  function errorMap(image, reference) {
    const made = samples(image), truth = samples(reference);
    for (let k = 0; k < made.data.length; k += 4) {
      const error = [0, 1, 2].reduce((sum, c) => sum + Math.abs(made.data[k + c] - truth.data[k + c]), 0) / 3;
      made.data.set(heat(error / FULL_ERROR), k);
    }
    return made;
  }

  function startViewer(viewer) {
    const [left, right] = all("select", viewer), [lower, upper] = all("canvas", viewer);
    const split = viewer.querySelector(".split"), zoom = viewer.querySelector(".zoom"), stage = viewer.querySelector(".stage");
    const error = viewer.querySelector(".error"), note = viewer.querySelector(".note");
    const reference = viewer.dataset.reference;

    async function paint(canvas, digest) {
      const image = await load(digest);
      const truth = error.checked && reference ? await load(reference) : null;
      const isSame = truth && truth.naturalWidth === image.naturalWidth && truth.naturalHeight === image.naturalHeight;
      const pixels = isSame ? errorMap(image, truth) : samples(image);
      [canvas.width, canvas.height] = [pixels.width, pixels.height];
      canvas.getContext("2d").putImageData(pixels, 0, 0);
      return !truth || isSame;
    }
    async function show() {
      const fits = await Promise.all([paint(lower, left.value), paint(upper, right.value)]);
      note.textContent = fits.every(Boolean) ? "" : "The input has fewer pixels than the reference: no error map of it.";
      viewer.dataset.state = error.checked ? "error" : "pictures";
    }
    function place() {
      const share = Number(split.value);
      upper.style.clipPath = `inset(0 0 0 ${share}%)`;
      viewer.querySelector(".edge").style.left = `${share}%`;
      split.setAttribute("aria-valuetext", `${share} % ${left.selectedOptions[0].text}, the rest ${right.selectedOptions[0].text}`);
    }
    function scale() {
      const sheet = viewer.querySelector(".sheet"), before = sheet.clientWidth;
      const middle = [stage.scrollLeft + stage.clientWidth / 2, stage.scrollTop + stage.clientHeight / 2];
      sheet.style.width = sheet.style.height = `${Number(zoom.value) * 100}%`;
      const ratio = sheet.clientWidth / before;
      stage.scrollTo(middle[0] * ratio - stage.clientWidth / 2, middle[1] * ratio - stage.clientHeight / 2);
    }
    for (const select of [left, right]) select.addEventListener("change", () => { show(); place(); });
    error.addEventListener("change", show);
    split.addEventListener("input", place);
    zoom.addEventListener("input", scale);
    stage.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch" || event.buttons === 1) drag(event);
    });
    stage.addEventListener("pointerdown", drag);
    function drag(event) {
      const box = viewer.querySelector(".sheet").getBoundingClientRect();
      split.value = ((event.clientX - box.left) / box.width) * 100;
      place();
    }
    show();
    place();
  }

  const pictures = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      pictures.unobserve(entry.target);
      showPicture(entry.target);
    }
  }, { rootMargin: "400px" });

  function showPicture(element) {
    if (element.dataset.state) return;
    element.dataset.state = "shown";
    if (element.tagName === "IMG") element.src = picture(element.dataset.picture);
    else startViewer(element);
  }

  // ---- the ledger -------------------------------------------------------------------------------------------------------

  const rows = all(".ledger tbody tr"), status = document.getElementById("status"), words = document.getElementById("words");
  function filter() {
    let count = 0;
    const wanted = words.value.trim().toLowerCase();
    for (const row of rows) {
      const fits = (!status.value || row.dataset.status === status.value) && row.textContent.toLowerCase().includes(wanted);
      row.hidden = !fits;
      count += fits;
    }
    document.getElementById("count").textContent = `${count} of ${rows.length} claims`;
  }
  status?.addEventListener("change", filter);
  words?.addEventListener("input", filter);
  for (const tile of all("[data-status-link]"))
    tile.addEventListener("click", () => { status.value = tile.dataset.statusLink; filter(); });

  // ---- going to a cell opens it; printing opens and draws everything ------------------------------------------------

  function reveal() {
    const target = location.hash ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    for (let element = target; element; element = element.parentElement) if (element.tagName === "DETAILS") element.open = true;
    if (target?.hidden) { status.value = words.value = ""; filter(); }
    target?.scrollIntoView();
  }
  addEventListener("hashchange", reveal);

  function drawAll() {
    for (const block of all("details.block")) block.open = true;
    for (const element of all(".chart")) draw(element);
    for (const element of all(".viewer, img[data-picture]")) showPicture(element);
  }
  let before = null;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    document.body.classList.add("printing");
    drawAll();
    setTheme("light");
  });
  addEventListener("afterprint", () => { document.body.classList.remove("printing"); setTheme(before); });

  for (const copy of all(".copy button"))
    copy.addEventListener("click", async () => {
      const command = copy.parentElement.querySelector("pre");
      try { await navigator.clipboard.writeText(command.textContent); copy.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(command); copy.textContent = "Selected"; }
    });

  const live = document.getElementById("live");
  if (live) setInterval(() => { if (live.checked) location.reload(); }, 30000);

  setTheme(chosenTheme());
  for (const element of all(".chart")) views.observe(element);
  for (const element of all(".viewer, img[data-picture]")) pictures.observe(element);
  filter();
  reveal();
  root.dataset.ready = Math.round(performance.now());
})();
