import { useMemo } from "preact/hooks";

import { deliveryOf, type RunFact } from "./delivery.js";
import { count, durationOf, exactTime, timeOf } from "./format.js";
import type { View } from "./live.js";
import { Badge } from "./parts.js";
import { labelOf, previewOf, statusOf, statusOfNode } from "./words.js";

/** The most rows of a list. */
const most = 500;

/** How the session was written: what the log says about writers, takeovers, removals and pauses. */
export function Delivery({ live, onSelect }: { live: View; onSelect: (id: string) => void }) {
  const { outline, records } = live;
  const facts = useMemo(() => deliveryOf(outline, records), [outline, outline.position, records]);
  const totals: Array<[string, number]> = [
    ["runs", facts.runs.length], ["takeovers", facts.takeovers], ["removed records", facts.removed], ["interrupted steps", facts.interruptedSteps], ["waits", facts.waits], ["resyncs", facts.resyncs],
  ];
  return (
    <section class="delivery" aria-label="Delivery" tabIndex={0}>
      <dl class="figures">
        {totals.map(([name, n]) => <div key={name}><dt>{name}</dt><dd>{n}</dd></div>)}
        {facts.epochs > 0 && <div><dt>epochs</dt><dd>{facts.epochs}</dd></div>}
      </dl>
      {facts.epochs > 0 && <p class={facts.fenced > 0 ? "failure" : "quiet"}>{facts.fenced > 0 ? `${count(facts.fenced, "record")} of a fenced writer` : "No record of a fenced writer."}</p>}
      <h2>Runs</h2>
      <table>
        <thead><tr><th>run</th><th>agent</th><th>mode</th><th class="number">epoch</th><th>from</th><th>duration</th><th>status</th></tr></thead>
        <tbody>{facts.runs.slice(0, most).map((run) => <Run key={run.node.id} run={run} onSelect={onSelect} />)}</tbody>
      </table>
      <h2>Pauses, removals and interruptions</h2>
      {facts.events.length === 0 && <p class="quiet">None.</p>}
      <ul>
        {facts.events.slice(0, most).map((node) => (
          <li key={node.id}>
            <button type="button" class="link number" onClick={() => onSelect(node.id)}>#{node.first}</button>
            <span>{timeOf(node.from)}</span>
            <span dir="auto">{labelOf(node)} <span class="quiet">{previewOf(node)}</span></span>
            {"status" in node && <Badge status={statusOf(node.status)} />}
            {node.to !== undefined && node.to > node.from && <span class="quiet">{durationOf(node.to - node.from)}</span>}
          </li>
        ))}
      </ul>
      {Math.max(facts.runs.length, facts.events.length) > most && <p class="quiet">The first {most} of each list.</p>}
    </section>
  );
}

function Run({ run: { node, agent, epoch }, onSelect }: { run: RunFact; onSelect: (id: string) => void }) {
  const status = statusOfNode(node);
  return (
    <tr>
      <td><button type="button" class="link number" onClick={() => onSelect(node.id)}>#{node.first}</button></td>
      <td dir="auto">{agent}</td>
      <td>{node.mode}</td>
      <td class="number">{epoch}</td>
      <td title={exactTime(node.from)}>{timeOf(node.from)}</td>
      <td>{node.to === undefined ? "" : durationOf(node.to - node.from)}</td>
      <td>{status !== undefined && <Badge status={status} />}</td>
    </tr>
  );
}
