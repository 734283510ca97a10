// The page of a cell: one invariant in one run, and each of its cases.

const AT_ONCE = 3; // so many plays are drawn without being asked for

async function cellPage(runs, slug, id) {
  const run = runs.get(slug);
  const cell = run && run.cells[id];
  if (!cell) {
    return make("div", {}, make("h1", {}, "There is no such page"),
      make("p", {}, make("a", { href: "#" }, "All verdicts")));
  }
  const clause = (await part("clauses"))[id] || { level: "", clause: "", minimum: "" };
  const ids = Object.keys(run.cells);
  const at = ids.indexOf(id);
  const step = (to, text) => to === undefined ? null
    : make("a", { href: `#cell/${slug}/${to}` }, text.replace("%", to));
  const loud = cell.cases.filter((each) => each.outcome === "violated"
    || each.outcome === "inconclusive");
  const open = loud.length ? loud.slice(0, AT_ONCE) : cell.cases.slice(0, 1);
  return make("div", {},
    make("nav", { class: "crumbs", "aria-label": "pages" },
      make("a", { href: "#" }, "All verdicts"),
      make("span", { class: "steps" }, step(ids[at - 1], "‹ %"), step(ids[at + 1], "% ›"))),
    make("h1", {}, `${id} `, badge(cell.verdict), " ",
      make("small", {}, `${clause.level} hold, ${run.label}`)),
    make("p", { class: "clause" }, clause.clause),
    make("p", { class: "strength-of" }, make("b", {}, "Strength: "), `${cell.strength || "not told"}. `,
      make("span", { class: "quiet" }, clause.minimum ? `Asked for: at least ${clause.minimum}. ` : "",
        `${run.about}.`)),
    siblings(runs, slug, id),
    cell.cases.length ? null : make("p", {}, "No case of it was played."),
    cell.cases.map((each) => caseSection(id, each, open.includes(each))));
}

/** The same invariant in the other runs. */
function siblings(runs, slug, id) {
  if (runs.size < 2) return null;
  const links = [...runs.values()].filter((run) => run.slug !== slug && run.cells[id]).map(
    (run) => make("a", { href: `#cell/${run.slug}/${id}` }, `${run.label} `,
      badge(run.cells[id].verdict, "\u200b")));
  return make("p", { class: "siblings" }, make("span", { class: "quiet" }, "Elsewhere: "), links);
}

function caseSection(id, about, open) {
  const play = make("div", { class: "play" });
  const name = about.id.slice(id.length + 1);
  const told = make("details", { class: `case ${about.outcome}`, id: `case/${id}/${name}`, open },
    make("summary", {}, make("h2", {}, badge(about.outcome, about.kind || about.outcome), " ",
      make("code", {}, name)), make("span", { class: "quiet" }, about.summary)),
    about.cause ? make("p", { class: "cause" }, about.cause) : null,
    make("p", { class: "quiet" }, about.facts.join(", ")),
    about.commands.map(command),
    about.cut ? make("p", { class: "note", "data-cut": true }, about.cut) : null,
    play);
  const fill = () => {
    if (told.open && !play.hasChildNodes()) showPlay(about, play);
  };
  told.addEventListener("toggle", fill);
  fill();
  return told;
}

function command(each) {
  const said = make("button", {
    type: "button",
    on: {
      click: async () => {
        await navigator.clipboard.writeText(each.line);
        said.textContent = "copied";
      },
    },
  }, "copy");
  return make("p", { class: "command" }, make("span", { class: "quiet" }, each.about),
    make("code", {}, each.line), said);
}

async function showPlay(about, box) {
  box.append(make("span", {}, ""));
  if (!about.play) {
    box.append(make("p", { class: "quiet" }, about.folder ? "" : "No record of a play was kept:"
      + " it was decided by a search, or not played."), evidence(about));
    return;
  }
  const play = await part(about.play);
  box.append(
    waitList(play),
    make("h3", {}, play.title ? `The play: ${play.title}` : "The play"),
    make("p", { class: "quiet" }, whichPlay(about, play)),
    play.events.length < play.total ? make("p", { class: "note", "data-cut": true },
      `${play.events.length} of ${play.total} events are shown; all of them are in ${play.folder}.`)
      : "");
  const stage = make("div", { class: "stage" });
  box.append(stage);
  drawPlay(play, stage);
  const log = make("details", { class: "log" }, make("summary", {},
    `Log: ${play.events.length} events${about.log ? ", and what the processes wrote" : ""}`));
  log.addEventListener("toggle", () => fillLog(log, play, about), { once: true });
  box.append(evidence(about), log);
}

function evidence(about) {
  return about.evidence.length ? make("div", {}, make("h3", {}, "The lines that show it"),
    make("pre", { tabindex: 0 }, about.evidence.join("\n"))) : "";
}

function whichPlay(about, play) {
  if (about.outcome !== "violated") return "The first play of the case.";
  if (play.violation >= 0) return "The play that violated.";
  return about.evidence.length
    ? "The first play of the case. The violation is in another, which the command above plays again."
    : "The play that violated; no single event shows it.";
}

async function fillLog(log, play, about) {
  const lines = play.events.map((event) => `${clock(event[0]).padStart(14)}  `
    + `${play.lanes[event[1]].padEnd(10)} ${play.kinds[event[2]][0].padEnd(12)} ${words(event[3])}`);
  log.append(make("pre", { tabindex: 0 }, lines.join("\n")));
  if (!about.log) return;
  for (const said of await part(about.log)) {
    log.append(make("h3", {}, said.file), said.left_out
      ? make("p", { class: "note", "data-cut": true },
        `${said.left_out} bytes before this are in ${play.folder}.`) : "",
    make("pre", { tabindex: 0 }, said.text));
  }
}

function waitList(play) {
  if (!play.waits.length) return "";
  return make("div", { class: "waits" }, make("h3", {}, "Who waits for whom"),
    make("ul", {}, play.waits.map((wait) => {
      const hung = wait.outcome === "hang";
      const others = wait.waits_for.map((each) => `${each.role} (${each.how})`).join("; ");
      return make("li", {}, make("b", {}, wait.role),
        hung ? ` still waits in ${wait.op} after ${wait.seconds.toFixed(1)} s`
          : ` was in ${wait.op} for ${wait.seconds.toFixed(1)} s: ${wait.outcome}`,
        wait.frame ? make("span", {}, ", at ", make("code", {}, wait.frame)) : "",
        " \u2192 ", others ? make("b", {}, others)
          : hung ? "for nobody that is gone" : "nobody was gone");
    })));
}

/** Data of an event as words. */
function words(data) {
  return Object.entries(data).map(([key, value]) => `${key}=${text(value)}`).join(" ");
}

function text(value) {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A time in µs for people. */
function clock(us) {
  return us >= 1e7 ? `${(us / 1e6).toFixed(3)} s` : `${(us / 1e3).toFixed(3)} ms`;
}
