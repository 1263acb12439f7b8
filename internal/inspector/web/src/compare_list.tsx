import type { OutlineNode } from "../../../../clients/ts/src/outline.js";
import { differenceOf, type CompareRow, type Pair } from "./compare.js";
import { count, durationOf, shorten } from "./format.js";
import { Badge } from "./parts.js";
import { VirtualList } from "./virtual.js";
import { labelOf, previewOf, statusOfNode } from "./words.js";

const signs: Readonly<Record<Pair["change"], [string, string]>> = {
  equal: ["=", "equal"], time: ["≈", "equal but for time and tokens"], content: ["≠", "different"], a: ["−", "only in the first session"], b: ["+", "only in the second session"],
};

/** The rows of two sessions, side by side. */
export function CompareList({ rows, selected, onSelect }: { rows: readonly CompareRow[]; selected: Pair | undefined; onSelect: (pair: Pair) => void }) {
  const at = rows.findIndex((row) => row === selected);
  return (
    <VirtualList
      rows={rows} height={30} label="Comparison" role="grid" reveal={at < 0 ? undefined : at}
      render={(row, i) => <Row key={i} row={row} selected={row === selected} onSelect={onSelect} />}
    />
  );
}

function Row({ row, selected, onSelect }: { row: CompareRow; selected: boolean; onSelect: (pair: Pair) => void }) {
  if ("folded" in row) return <div class="pair folded" role="row"><span role="gridcell" class="quiet">{count(row.folded, "row")} without a difference</span></div>;
  const [sign, text] = signs[row.change];
  const difference = differenceOf(row);
  return (
    <div class={`pair ${row.change}${selected ? " selected" : ""}`} role="row" aria-selected={selected} onClick={() => onSelect(row)}>
      <span role="gridcell"><button type="button" class="sign" aria-label={text} title={text} onClick={() => onSelect(row)}>{sign}</button></span>
      <Cell node={row.a} level={row.level} text={difference?.a} />
      <Cell node={row.b} level={row.level} text={difference?.b} />
    </div>
  );
}

/** A node of one side, with its part that differs, or else its preview. */
function Cell({ node, level, text }: { node: OutlineNode | undefined; level: number; text: string | undefined }) {
  if (node === undefined) return <span role="gridcell" class="cell missing" />;
  const status = statusOfNode(node);
  return (
    <span role="gridcell" class="cell" style={{ paddingInlineStart: `${8 + Math.min(level, 8) * 10}px` }}>
      <span class={`label ${node.kind}`} dir="auto">{shorten(labelOf(node), 40)}</span>
      {status !== undefined && status.word !== "done" && <Badge status={status} />}
      <span class="preview" dir="auto">{shorten(text ?? previewOf(node), 100)}</span>
      {node.to !== undefined && <span class="quiet time">{durationOf(node.to - node.from)}</span>}
    </span>
  );
}
