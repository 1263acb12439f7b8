import { useEffect, useRef, useState } from "preact/hooks";

import { shorten, timeOf } from "./format.js";
import { open } from "./link.js";
import { statusOf } from "./words.js";

/** The parameters of the address that GET /v1/sessions has too, and those of them that its totals have. */
const parameters = ["q", "in", "status", "agentType", "owner", "origin", "error", "model", "waiting", "since", "until"] as const;
const ofRange = ["agentType", "owner", "since", "until"] as const;
type Parameter = (typeof parameters)[number];

const statuses = ["active", "paused", "ended", "failed"] as const;

/** The filters of the list are the query of the address, so that a filtered list is a link. */
export class Filters {
  constructor(private readonly query: URLSearchParams) {}

  get(name: Parameter): string {
    return this.query.get(name) ?? "";
  }

  get used(): boolean {
    return parameters.some((name) => name !== "in" && this.get(name) !== "");
  }

  /** with is the address of the list with other values; "" removes one. */
  with(values: Partial<Record<Parameter, string>>): string {
    const query = new URLSearchParams();
    for (const name of parameters) {
      const value = values[name] ?? this.get(name);
      if (value !== "") query.set(name, value);
    }
    const text = query.toString();
    return text === "" ? "/inspect" : `/inspect?${text}`;
  }

  /** A text is searched in messages, which the server does within bounds. */
  get searches(): boolean {
    return this.get("q") !== "" && this.get("in") === "messages";
  }

  /** The query of the requests for the list, and of those for its totals. */
  get list(): string {
    return this.pick(this.get("q") === "" ? parameters.filter((name) => name !== "in") : parameters, { limit: "50" });
  }

  get range(): string {
    return this.pick(ofRange, {});
  }

  private pick(names: readonly Parameter[], base: Record<string, string>): string {
    const query = new URLSearchParams(base);
    for (const name of names) if (this.get(name) !== "") query.set(name, this.get(name));
    return query.toString();
  }
}

/** days returns the beginning of today, or of days before it, in ISO form. */
function dayBefore(days: number): string {
  const at = new Date();
  at.setHours(0, 0, 0, 0);
  at.setDate(at.getDate() - days);
  return at.toISOString();
}

export function FilterBar({ filters, models }: { filters: Filters; models: readonly string[] }) {
  const set = (values: Partial<Record<Parameter, string>>) => open(new Filters(new URLSearchParams(location.search)).with(values), true); // a search calls the function of an earlier rendering
  const ranges: { name: string; since: string; until: string }[] = [
    { name: "any time", since: "", until: "" },
    { name: "today", since: dayBefore(0), until: "" },
    { name: "yesterday", since: dayBefore(1), until: dayBefore(0) },
    { name: "last 7 days", since: dayBefore(7), until: "" },
  ];
  const [since, until] = [filters.get("since"), filters.get("until")];
  const inMessages = filters.get("in") === "messages";
  let at = ranges.findIndex((range) => range.since === since && range.until === until);
  if (at < 0) {
    at = ranges.length;
    ranges.push({ name: [since && `from ${timeText(since)}`, until && `until ${timeText(until)}`].filter(Boolean).join(" "), since, until });
  }
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <Search value={filters.get("q")} inMessages={inMessages} set={(q) => set({ q })} />
      <button id="in-messages" type="button" aria-pressed={inMessages} onClick={() => {
        const narrow = since + filters.get("agentType") + filters.get("owner") !== "";
        set(inMessages ? { in: "" } : { in: "messages", ...(!narrow && { since: dayBefore(7) }) });
      }}>in messages</button>
      <label>
        <span class="hidden">Status</span>
        <select value={filters.get("status")} onChange={(event) => set({ status: event.currentTarget.value })}>
          <option value="">any status</option>
          {statuses.map((name) => <option key={name} value={name}>{statusOf(name).word}</option>)}
        </select>
      </label>
      <label>
        <span class="hidden">Time of the last save</span>
        <select value={String(at)} onChange={(event) => {
          const range = ranges[Number(event.currentTarget.value)];
          if (range !== undefined) set({ since: range.since, until: range.until });
        }}>
          {ranges.map((range, i) => <option key={range.name} value={String(i)}>{range.name}</option>)}
        </select>
      </label>
      <button type="button" class="shortcut" aria-pressed={at === 2} onClick={() => set(at === 2 ? { since: "", until: "" } : { since: dayBefore(1), until: dayBefore(0) })}>Yesterday</button>
      <Model value={filters.get("model")} models={models} set={(model) => set({ model })} />
      <Name name="agentType" label="agent" value={filters.get("agentType")} set={(agentType) => set({ agentType })} />
      <Name name="owner" label="owner" value={filters.get("owner")} set={(owner) => set({ owner })} />
      {filters.get("origin") !== "" && <Name name="origin" label="origin of a fork" value={filters.get("origin")} set={(origin) => set({ origin })} />}
      {inMessages && <p class="quiet">Searches the messages of the sessions with this time, agent or owner: at most 2,000 sessions, 64 MiB and 3 seconds at a time.</p>}
    </form>
  );
}

/** Model offers the models of the totals, and the chosen one. */
function Model({ value, models, set }: { value: string; models: readonly string[]; set: (value: string) => void }) {
  const names = [...new Set([...models, value])].filter((name) => name !== "");
  if (names.length === 0) return null;
  return (
    <label>
      <span class="hidden">Model</span>
      <select id="model" value={value} onChange={(event) => set(event.currentTarget.value)}>
        <option value="">any model</option>
        {names.map((name) => <option key={name} value={name} dir="auto">{shorten(name, 40)}</option>)}
      </select>
    </label>
  );
}

function timeText(iso: string): string {
  const at = Date.parse(iso);
  return Number.isNaN(at) ? iso : timeOf(at);
}

function Name({ name, label, value, set }: { name: string; label: string; value: string; set: (value: string) => void }) {
  return (
    <label>
      <span class="hidden">{label}</span>
      <input id={name} class="name" value={value} placeholder={`any ${label}`} onChange={(event) => set(event.currentTarget.value.trim())} />
    </label>
  );
}

/** Text is searched when the user has not typed for this time, in milliseconds. */
const pause = 250;

function Search({ value, inMessages, set }: { value: string; inMessages: boolean; set: (value: string) => void }) {
  const where = inMessages ? "messages" : "title, error, id, owner";
  const [text, setText] = useState(value);
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) setText((sent.current = value)); // the address has changed
  }, [value]);
  useEffect(() => {
    const wanted = text.trim();
    if (wanted === sent.current) return;
    const timer = setTimeout(() => set((sent.current = wanted)), pause);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label class="search">
      <span class="hidden">Search {where}</span>
      <input id="search" type="search" value={text} maxLength={100} placeholder={`Search ${where}`} onInput={(event) => setText(event.currentTarget.value)} />
    </label>
  );
}
