import { useMemo, useState } from "preact/hooks";

import type { LogRecord, OutlineNode } from "../../../../clients/ts/src/outline.js";
import { linesOf, save } from "./export.js";
import { bytesOf, exactTime } from "./format.js";
import type { View } from "./live.js";
import { JSONText } from "./parts.js";
import { VirtualList } from "./virtual.js";

/** The records as the log has them. */
export function Records({ live, node }: { live: View; node: OutlineNode | undefined }) {
  const [filter, setFilter] = useState("");
  const [chosen, setSelected] = useState(0);
  const selected = chosen || (node?.first ?? 0);
  const rows = useMemo(() => (filter === "" ? live.records : live.records.filter((r) => typeOf(r).includes(filter) || r.session === filter)), [live.records, live.records.length, filter]);
  const record = live.records.find((r) => r.sequence === selected);
  const at = rows.findIndex((r) => r.sequence === selected);
  return (
    <section class="records" aria-label="Records">
      <div class="options">
        <label>Type or session <input value={filter} onInput={(e) => setFilter(e.currentTarget.value.trim())} /></label>
        <span class="quiet">{rows.length} of {live.records.length}</span>
        <button type="button" onClick={() => save(`${live.id}.jsonl`, linesOf(rows))}>Download</button>
      </div>
      <div class="record-panes">
        <VirtualList
          rows={rows} height={26} label="Records" role="grid" follow={node === undefined} reveal={at < 0 ? undefined : at}
          render={(r) => (
            <div key={r.sequence} class={r.sequence === selected ? "record selected" : "record"} role="row" aria-selected={r.sequence === selected} onClick={() => setSelected(r.sequence)}>
              <span role="gridcell"><button type="button" class="link number" onClick={() => setSelected(r.sequence)}>#{r.sequence}</button></span>
              <span role="gridcell">{exactTime(r.time).slice(11, 23)}</span>
              <span role="gridcell" dir="auto" class="of">{r.session}</span>
              <span role="gridcell" class="number">{r.ordinal}</span>
              <span role="gridcell" class="number">{r.epoch}</span>
              <span role="gridcell">{typeOf(r)}</span>
              <span role="gridcell" class="number">{bytesOf(r.data)}</span>
            </div>
          )}
        />
        {record !== undefined && <JSONText text={record.data} />}
      </div>
    </section>
  );
}

const types = new WeakMap<LogRecord, string>();

/** typeOf returns the type of a record. */
export function typeOf(record: LogRecord): string {
  let type = types.get(record);
  if (type === undefined) {
    type = String((JSON.parse(record.data) as { type?: unknown }).type);
    types.set(record, type);
  }
  return type;
}
