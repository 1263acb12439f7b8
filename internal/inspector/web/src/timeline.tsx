import { useMemo, useState } from "preact/hooks";

import { durationOf, shorten } from "./format.js";
import { useKeys } from "./keys.js";
import type { View } from "./live.js";
import { Badge } from "./parts.js";
import { scaleOf, treeRows, type Scale, type TreeRow } from "./rows.js";
import { VirtualList } from "./virtual.js";
import { labelOf, previewOf, statusOfNode } from "./words.js";

/** The tree of what happened, with a bar of time for each row. */
export function Timeline({ live, selected, onSelect }: { live: View; selected: string; onSelect: (id: string) => void }) {
  const { outline } = live;
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [onlyErrors, setOnlyErrors] = useState(false);
  const [skip, setSkip] = useState(true);
  const [checkpoints, setCheckpoints] = useState(false);
  const rows = useMemo(() => {
    const nodes = checkpoints ? outline.nodes : outline.nodes.filter((node) => node.kind !== "checkpoint");
    return treeRows(nodes, closed, onlyErrors);
  }, [outline, outline.position, closed, onlyErrors, checkpoints]);
  const until = live.records.at(-1)?.time ?? 0;
  const scale = useMemo(() => scaleOf(outline.nodes, until, skip), [outline, outline.position, skip]);

  const at = rows.findIndex(({ node }) => node.id === selected);
  const move = (by: number) => {
    const to = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
    if (to !== undefined) onSelect(to.node.id);
  };
  const toggle = (id: string, open: boolean) => {
    const next = new Set(closed);
    if (open) next.delete(id);
    else next.add(id);
    setClosed(next);
  };
  useKeys({
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    ArrowRight: () => toggle(selected, true), ArrowLeft: () => toggle(selected, false),
  });
  return (
    <section class="timeline" aria-label="Timeline">
      <div class="options">
        <label><input type="checkbox" checked={onlyErrors} onChange={(e) => setOnlyErrors(e.currentTarget.checked)} /> only errors</label>
        <label><input type="checkbox" checked={skip} onChange={(e) => setSkip(e.currentTarget.checked)} /> short pauses</label>
        <label><input type="checkbox" checked={checkpoints} onChange={(e) => setCheckpoints(e.currentTarget.checked)} /> checkpoints</label>
        <span class="quiet">{rows.length} rows</span>
      </div>
      {rows.length === 0 && live.connection.state !== "loading" && <p class="quiet">{onlyErrors ? "No errors." : "No record yet."}</p>}
      <VirtualList
        rows={rows} height={30} label="Timeline" role="treegrid" follow={isRunning(live)} reveal={at < 0 ? undefined : at}
        render={(row) => <TimelineRow key={row.node.id} row={row} scale={scale} until={until} selected={row.node.id === selected} onSelect={onSelect} onToggle={toggle} />}
      />
    </section>
  );
}

/** isRunning reports whether an agent of the session runs, so that the end of the list is what a user wants to see. */
function isRunning(live: View): boolean {
  return live.outline.agents.some((agent) => agent.status === "active");
}

function TimelineRow(props: { row: TreeRow; scale: Scale; until: number; selected: boolean; onSelect: (id: string) => void; onToggle: (id: string, open: boolean) => void }) {
  const { node, level, children, open } = props.row;
  const status = statusOfNode(node);
  const end = node.to ?? props.until;
  const [from, to] = [props.scale(node.from), props.scale(end)];
  const bar = { left: `${from * 100}%`, width: `max(3px, ${(to - from) * 100}%)` };
  return (
    <div
      class={props.selected ? "line selected" : "line"} role="row" aria-level={level + 1} aria-selected={props.selected} {...(children > 0 && { "aria-expanded": open })}
      data-node={node.id} data-kind={node.kind} onClick={() => props.onSelect(node.id)}
    >
      <span role="gridcell" class="name" style={{ paddingInlineStart: `${Math.min(level, 12) * 14}px` }}>
        <button type="button" class="twist" tabIndex={-1} aria-label={open ? "close" : "open"} disabled={children === 0} onClick={(e) => (e.stopPropagation(), props.onToggle(node.id, !open))}>
          {children === 0 ? "" : open ? "▾" : "▸"}
        </button>
        <span class={`label ${node.kind}`} dir="auto">{shorten(labelOf(node), 60)}</span>
        <span class="preview" dir="auto">{shorten(previewOf(node), 120)}</span>
      </span>
      <span role="gridcell" class="status">{status !== undefined && <Badge status={status} />}</span>
      <span role="gridcell" class="track">
        <span class={`bar-of-time ${status?.tone ?? node.kind}`} style={bar} title={durationOf(end - node.from)} />
      </span>
    </div>
  );
}
