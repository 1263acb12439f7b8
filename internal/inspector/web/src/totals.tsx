import { useState } from "preact/hooks";

import type { ErrorGroup, Summary } from "./api.js";
import type { Filters } from "./filters.js";
import { costOf, count, exactTime, shorten, timeOf, tokensOf } from "./format.js";
import { follow } from "./link.js";

/** The totals of the sessions in the chosen time. Those of a scan that has not reached its end are "at least". */
export function Totals({ of, filters }: { of: Summary; filters: Filters }) {
  const atLeast = of.complete ? "" : "at least ";
  const failed = of.byStatus["failed"] ?? 0;
  const waiting = of.waiting ?? 0;
  const link = (name: string, value: string, text: string, tone: string) => {
    const used = filters.get(name as "status") === value;
    return <a class={tone} href={filters.with({ [name]: used ? "" : value })} aria-current={used} onClick={follow}>{text}</a>;
  };
  return (
    <p class="totals" title={of.complete ? "" : `of the ${of.sessions} sessions that were saved after ${exactTime(of.through ?? 0)}`}>
      <span>{atLeast}{count(of.sessions, "session")}</span>
      {failed > 0 && link("status", "failed", `${atLeast}${failed} failed`, "bad")}
      {waiting > 0 && link("waiting", "1", `${atLeast}${waiting} ${waiting === 1 ? "waits" : "wait"} for you`, "waits")}
      {of.usage !== undefined && of.usage.length > 0 && <span>{atLeast}{tokensOf(of.usage)} tokens</span>}
      {of.cost !== undefined && <span>{costOf({ ...of, costAtLeast: of.costAtLeast === true || !of.complete })}</span>}
    </p>
  );
}

/** How many groups are shown before the user asks for all. */
const few = 3;

/** The groups of the latest errors, with the sessions of most first. */
export function ErrorGroups({ of, filters }: { of: Summary; filters: Filters }) {
  const [all, setAll] = useState(false);
  const groups = of.errors ?? [];
  const chosen = filters.get("error");
  if (groups.length === 0 && chosen === "") return null;
  const listed = groups.filter((group, i) => all || i < few || group.group === chosen);
  return (
    <section class="groups" aria-label="Errors">
      {listed.map((group) => <Group key={group.group} of={group} atLeast={!of.complete} chosen={group.group === chosen} filters={filters} />)}
      {chosen !== "" && !groups.some((group) => group.group === chosen) && (
        <div class="group chosen">
          <span class="quiet">one error</span>
          <a href={filters.with({ error: "" })} onClick={follow}>show all sessions</a>
        </div>
      )}
      {groups.length > few && <button type="button" class="link" onClick={() => setAll(!all)}>{all ? "fewer errors" : `all ${groups.length} errors`}</button>}
    </section>
  );
}

function Group({ of, atLeast, chosen, filters }: { of: ErrorGroup; atLeast: boolean; chosen: boolean; filters: Filters }) {
  const [first, last] = [of.first, of.last].map((time) => (time === undefined ? "" : timeOf(time)));
  const times = first === last ? last : `${first} to ${last}`;
  const name = of.tool ?? of.code;
  return (
    <div class={chosen ? "group chosen" : "group"}>
      <span class="number">{atLeast ? "≥ " : ""}{of.count} ×</span>
      <span class="what" dir="auto">{name !== undefined && <strong>{shorten(name, 40)} </strong>}{shorten(of.text, 120)}</span>
      <span class="quiet times">{times}</span>
      <a href={filters.with({ error: chosen ? "" : of.group })} onClick={follow}>{chosen ? "show all sessions" : "show"}</a>
    </div>
  );
}
