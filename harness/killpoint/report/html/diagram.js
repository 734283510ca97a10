// The space-time diagram: time runs down, a lane for each process, messages are arrows.

const ROW = 20, GUTTER = 84, MARGIN = 30, TOP = 8, LANE = 104, LETTER = 6.3;
const XMLNS = "http://www.w3.org/2000/svg";
let diagrams = 0;

function draw(tag, attributes, content) {
  const node = document.createElementNS(XMLNS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (content !== undefined) node.textContent = content;
  return node;
}

/** Which events get a row: all, or those that are not routine. */
function rowsOf(play, everything) {
  const needed = new Set([...play.evidence, play.violation]);
  const told = new Set(play.evidence.map((index) => play.events[index][2]));
  for (const arrow of play.arrows) needed.add(arrow[0]).add(arrow[1]);
  return play.events.map((_, index) => index).filter((index) => {
    const kind = play.events[index][2];
    const plain = !["end", "late-tick"].includes(play.kinds[kind][0]);
    return everything || play.kinds[kind][1] !== "quiet" || needed.has(index)
      || (told.has(kind) && plain) || failed(play, index);
  });
}

/** An order that ended otherwise than it should. */
function failed(play, index) {
  const [, , kind, data] = play.events[index];
  return play.kinds[kind][0] === "end" && !["ok", "stopped"].includes(data.outcome);
}

/** Where each row stands; a long time is a gap that says how long. */
function layOut(play, rows) {
  const at = new Map();
  const gaps = [];
  let [y, before] = [TOP, null];
  for (const index of rows) {
    const t = play.events[index][0];
    const gap = before === null ? 0 : t - before;
    if (gap >= 1e5) {
      gaps.push([y + ROW + 9, gap]);
      y += ROW + 4;
    } else if (gap >= 5e3) {
      y += 6;
    }
    y += ROW;
    at.set(index, y);
    before = t;
  }
  return { at, gaps, height: y + ROW };
}

/** The height of any event: its row, or between those around it. */
function heightOf(place, rows) {
  return (index) => {
    if (place.at.has(index)) return place.at.get(index);
    let [low, high] = [0, rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle] < index) low = middle + 1;
      else high = middle;
    }
    const before = low ? place.at.get(rows[low - 1]) : TOP;
    const behind = low < rows.length ? place.at.get(rows[low]) : place.height;
    return (before + behind) / 2;
  };
}

function drawPlay(play, stage) {
  const state = { everything: false, cursor: play.violation, pinned: false };
  const panel = make("div", { class: "panel", role: "status" });
  const box = make("div", {
    class: "lanes", tabindex: 0, role: "application",
    "aria-label": "space-time diagram; arrow keys move from event to event",
  });
  const all = make("input", { type: "checkbox" });
  const view = { play, state, panel, box, all };
  const jump = (text, key, to, title) => make("button", {
    type: "button", title, "data-jump": key, disabled: to() === undefined,
    on: { click: () => { pin(view, to()); box.focus({ preventScroll: true }); } },
  }, text, " ", make("kbd", {}, key));
  view.faults = play.events.map((_, index) => index).filter(
    (index) => ["fault", "reached", "hang"].includes(play.kinds[play.events[index][2]][0]));
  view.first = () => play.violation >= 0 ? play.violation : undefined;
  view.next = () => view.faults.find((index) => index > state.cursor) ?? view.faults[0];
  all.addEventListener("change", () => {
    state.everything = all.checked;
    render(view);
  });
  stage.append(
    make("div", { class: "tools" },
      jump("first violation", "v", view.first, "the event at which the violation shows"),
      jump("next fault", "f", view.next, "what was done to a process, or a hang"),
      make("label", {}, all, ` all ${play.events.length} events `, make("kbd", {}, "a")),
      make("span", { class: "quiet keys" }, "↑ ↓ move, click pins")),
    make("div", { class: "both" }, box, panel), legend());
  box.addEventListener("keydown", (event) => onKey(view, event));
  box.addEventListener("mousemove", (event) => {
    if (!state.pinned) point(view, nearest(view, event));
  });
  box.addEventListener("click", (event) => {
    const index = nearest(view, event);
    if (state.pinned && index === state.cursor) state.pinned = false;
    else pin(view, index);
    showCursor(view);
  });
  render(view);
  new ResizeObserver(() => {
    if (Math.abs(box.clientWidth - view.width) > 40) render(view);
  }).observe(box);
}

function legend() {
  const item = (sign, text) => make("span", {}, make("b", { "aria-hidden": "true" }, sign), ` ${text}`);
  return make("p", { class: "quiet key" }, item("●", "event"), item("◆", "fault"), item("✕", "end of a process"),
    item("■", "hang"), item("\u2192", "message"), item("╌\u2192", "altered, repeated or stale"),
    item("┄✕", "accepted, not seen to arrive"),
    item("⇢", "waits for"), item("▮", "inside an operation"), item("◎", "shows the violation"));
}

function render(view) {
  const { play, state, box } = view;
  view.rows = rowsOf(play, state.everything);
  view.place = layOut(play, view.rows);
  view.y = heightOf(view.place, view.rows);
  view.width = box.clientWidth;
  // The director has a lane only where it did something that is no process's.
  view.lanes = play.lanes.filter((name, number) => name !== "director"
    || view.rows.some((index) => play.events[index][1] === number));
  const count = Math.max(1, view.lanes.length);
  const lane = Math.min(300, Math.max(LANE, (view.width - GUTTER - MARGIN) / count));
  view.x = (number) => GUTTER + MARGIN + number * lane;
  const width = Math.max(view.width, GUTTER + MARGIN + count * lane);
  const svg = draw("svg", { width, height: view.place.height, class: "diagram" });
  const mark = `d${diagrams += 1}`;
  svg.append(heads(mark));
  view.bar = draw("rect", { class: "cursor", x: 0, width, height: ROW, y: -ROW });
  svg.append(view.bar);
  drawViolation(view, svg, width);
  drawLanes(view, svg);
  drawSpans(view, svg);
  drawArrows(view, svg, mark);
  drawWaits(view, svg, mark);
  drawEvents(view, svg, lane);
  const names = make("div", { class: "names", style: `width:${width}px` }, view.lanes.map(
    (name, number) => make("span", { style: `left:${view.x(number) - 8}px;max-width:${lane - 8}px` }, name)));
  box.replaceChildren(names, svg);
  if (state.cursor < 0 && view.rows.length) state.cursor = view.faults[0] ?? view.rows[0];
  showCursor(view);
  bring(view);
}

function heads(mark) {
  const defs = draw("defs", {});
  for (const kind of ["message", "odd", "wait"]) {
    const marker = draw("marker", {
      id: `${mark}-${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
      orient: "auto-start-reverse", class: `head ${kind}`,
    });
    marker.append(draw("path", { d: "M0 0L8 4L0 8z" }));
    defs.append(marker);
  }
  return defs;
}

function drawViolation({ play, y }, svg, width) {
  if (play.violation < 0) return;
  const top = y(play.violation) - ROW / 2;
  svg.append(draw("rect", { class: "violation", x: 0, y: top, width, height: ROW }),
    draw("text", { class: "violation-word", x: width - 10, y: top + ROW / 2 + 4 }, "◀ violation"));
}

/** Each process from the top to its end; dotted while it is stopped, thin when it is gone. */
function drawLanes({ play, lanes, place, x, y }, svg) {
  lanes.forEach((name, number) => {
    let [from, word] = [TOP, "alive"];
    const until = (to) => {
      svg.append(draw("line", { class: `lane ${word}`, x1: x(number), x2: x(number), y1: from, y2: to }));
      from = to;
    };
    for (const index of lives(play, name)) {
      until(y(index));
      word = lifeAfter(play, index);
    }
    until(place.height);
  });
}

function drawSpans({ play, place, x, y }, svg) {
  for (const [lane, begin, end, op, order, outcome] of play.spans) {
    const [top, foot] = [y(begin), end < 0 ? place.height - 4 : y(end)];
    const wide = order ? 14 : 8;
    const bad = !order && (end < 0 || outcome === "ended") ? " unended" : "";
    const rect = draw("rect", {
      class: `span${order ? " order" : ""}${bad}`,
      x: x(lane) - wide / 2, y: top, width: wide, height: Math.max(3, foot - top), rx: 2,
    });
    rect.append(draw("title", {}, `${play.lanes[lane]} in ${op}: ${outcome || "not ended"}`));
    svg.append(rect);
  }
}

function drawArrows({ play, x, y }, svg, mark) {
  for (const [source, to, label, odd] of play.arrows) {
    const [x1, y1] = [x(play.events[source][1]), y(source)];
    if (to < 0) {
      svg.append(draw("path", { class: "arrow lost", d: `M${x1} ${y1}h-14` }),
        draw("text", { class: "lost-sign", x: x1 - 24, y: y1 + 4 }, "✕"));
      continue;
    }
    const x2 = x(play.events[to][1]) - Math.sign(x(play.events[to][1]) - x1) * 4;
    const kind = odd ? "odd" : "message";
    const line = draw("path", {
      class: `arrow ${kind}`, d: `M${x1} ${y1}L${x2} ${y(to)}`, "marker-end": `url(#${mark}-${kind})`,
    });
    line.append(draw("title", {}, `message ${label}${odd ? `: ${odd}` : ""}`));
    svg.append(line);
  }
}

function drawWaits({ play, x, y }, svg, mark) {
  for (const wait of play.waits) {
    const from = play.lanes.indexOf(wait.role);
    if (wait.outcome !== "hang" || from < 0) continue;
    for (const other of wait.waits_for) {
      const to = play.lanes.indexOf(other.role);
      if (to < 0) continue;
      const [x1, x2, top] = [x(from), x(to), y(wait.at) + 7];
      svg.append(draw("path", {
        class: "arrow wait", d: `M${x1} ${top}Q${(x1 + x2) / 2} ${top + 16} ${x2} ${top}`,
        "marker-end": `url(#${mark}-wait)`,
      }));
    }
  }
}

const SHAPES = {
  fault: (x, y) => ["path", { d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}z` }],
  ended: (x, y) => ["path", { d: `M${x - 6} ${y - 6}L${x + 6} ${y + 6}M${x + 6} ${y - 6}L${x - 6} ${y + 6}` }],
  hang: (x, y) => ["rect", { x: x - 6, y: y - 6, width: 12, height: 12 }],
  act: (x, y) => ["circle", { cx: x, cy: y, r: 4 }],
  quiet: (x, y) => ["circle", { cx: x, cy: y, r: 2.5 }],
};

function drawEvents({ play, rows, place, x }, svg, lane) {
  const shown = new Set(play.evidence);
  for (const [y, gap] of place.gaps) {
    svg.append(draw("text", { class: "gap", x: GUTTER - 8, y: y + 3 }, `⋮ ${long(gap)}`));
  }
  for (const index of rows) {
    const [t, number, kind, data] = play.events[index];
    const [name, type] = play.kinds[kind];
    const [left, y] = [x(number), place.at.get(index)];
    const bold = type === "fault" || type === "hang";
    const well = type === "ended" && !data.signal && !data.code;
    const group = draw("g", { class: `event ${type}${well ? " well" : ""}` });
    const [shape, attributes] = SHAPES[type](left, y);
    if (shown.has(index)) group.append(draw("circle", { class: "shows", cx: left, cy: y, r: 9 }));
    group.append(draw(shape, attributes),
      draw("text", { class: "time", x: GUTTER - 8, y: y + 4 }, clock(t)),
      draw("text", { class: "label", x: left + 12, y: y + 4 },
        clip(brief(name, data), (lane - 20) / (LETTER + (bold ? 0.9 : 0)))));
    svg.append(group);
  }
}

/** A long time, roughly. */
function long(us) {
  return us >= 1e6 ? `${(us / 1e6).toFixed(1)} s` : `${Math.round(us / 1e3)} ms`;
}

function clip(said, most) {
  return said.length > most ? `${said.slice(0, Math.max(3, most - 1))}…` : said;
}

/** An event in a few words. */
function brief(name, data) {
  const fine = data.outcome === undefined || data.outcome === "ok";
  const what = data.seq ?? data.n ?? data.request ?? data.call ?? "";
  const more = [data.fault, data.op, data.name, data.method, data.what, data.state, data.act]
    .find((each) => each !== undefined && each !== "");
  const ended = data.signal ? `signal ${data.signal}` : data.code !== undefined ? `status ${data.code}` : "";
  if (name === "store") {
    return `slot ${data.slot}: ${data.flag ? `read by ${data.flag - 1}` : "written"} = ${data.value}`;
  }
  return [name, what, more, data.where && `at ${data.where}`, ended, fine ? "" : data.outcome]
    .filter((each) => each !== undefined && each !== "").join(" ");
}
