// Schedules and Doors: where events come from by themselves, and from outside.
import { h } from "../dom.js";
import { empty, eventsPath, heading, number, panel, place, qualified, table, time } from "../parts.js";
import { state } from "../store.js";

export const timers = {
  title: () => "Schedules and Doors",
  render: () => [heading("Schedules and Doors"), schedules(), doors()],
};

function schedules() {
  const rows = [...state.schedules].map(([key, s]) =>
    h(
      "tr",
      { key },
      h(
        "td",
        null,
        qualified(s.namespace, s.name),
        h("div", { class: "faint narrow" }, s.type),
        s.problem ? h("div", { class: "reason bad" }, s.problem) : null,
      ),
      h("td", null, h("code", { class: "cron" }, s.when)),
      h(
        "td",
        { class: "wide" },
        h("a", { href: eventsPath({ type: s.type, source: s.source }) }, s.type),
        h("div", { class: "faint" }, "from ", s.source),
      ),
      h("td", null, time(s.next)),
      h("td", { class: "wide" }, time(s.last)),
      h("td", { class: "right wide" }, number(s.published)),
      h("td", { class: "right wide" }, number(s.missed, "warn")),
    ),
  );
  return panel(
    "Schedules",
    rows.length
      ? table(
          "Schedules",
          [
            { title: "Schedule" },
            { title: "When" },
            { title: "Event", class: "wide" },
            { title: "Next" },
            { title: "Last", class: "wide" },
            { title: "Published", class: "right wide" },
            { title: "Missed", class: "right wide" },
          ],
          rows,
        )
      : empty("There is no Schedule.", "A Schedule publishes an event by a cron line, an interval or at a time."),
  );
}

function doors() {
  const rows = [...state.exposures].map(([key, e]) =>
    h(
      "tr",
      { key },
      h("td", null, qualified(e.namespace, e.name)),
      h("td", null, e.kind),
      h(
        "td",
        { class: "wrap" },
        e.url
          ? h("a", { href: e.url, target: "_blank", rel: "noreferrer" }, e.url)
          : h("span", { class: "warn" }, "not served: see Health"),
      ),
      h("td", { class: "wide" }, place(e.at)),
    ),
  );
  return panel(
    "Doors and APIRules",
    rows.length
      ? table("Doors and APIRules", [{ title: "Name" }, { title: "Kind" }, { title: "URL" }, { title: "Manifest", class: "wide" }], rows)
      : empty("Nothing comes in from outside.", "A Door takes webhooks and makes events of them; an APIRule gives a Function a host."),
  );
}
