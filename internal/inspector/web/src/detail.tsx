import type { ComponentChildren } from "preact";

import type { OutlineNode } from "../../../../clients/ts/src/outline.js";
import { rawMembers } from "../../../../clients/ts/src/rawjson.js";
import { bytesOf, count, durationOf, exactTime } from "./format.js";
import type { View } from "./live.js";
import { Badge, JSONText } from "./parts.js";
import { labelOf, statusOfNode } from "./words.js";

/** Everything about one node, and what can be done with it. */
export function Detail({ node, live, onClose, onRecords, children }: { node: OutlineNode; live: View; onClose: () => void; onRecords: () => void; children?: ComponentChildren }) {
  const status = statusOfNode(node);
  const record = live.records.find((r) => r.sequence === node.first);
  return (
    <aside class="detail" aria-label="Details">
      <div class="heading">
        <h2 dir="auto">{labelOf(node)}</h2>
        {status !== undefined && <Badge status={status} />}
        <button type="button" onClick={onClose}>Close</button>
      </div>
      <dl>
        <dt>kind</dt><dd>{node.kind}</dd>
        <dt>session</dt><dd dir="auto">{node.session}</dd>
        <dt>from</dt><dd>{exactTime(node.from)}</dd>
        {node.to !== undefined && <><dt>duration</dt><dd>{durationOf(node.to - node.from)}</dd></>}
        <dt>records</dt>
        <dd><button type="button" class="link" onClick={onRecords}>{count(node.records, "record")}, #{node.first} to #{node.last}</button></dd>
        {record?.epoch !== undefined && <><dt>epoch</dt><dd>{record.epoch}</dd></>}
        <Facts node={node} />
      </dl>
      <div class="acts">{children}</div>
      <Content node={node} data={record?.data ?? "null"} />
    </aside>
  );
}

function Facts({ node }: { node: OutlineNode }) {
  const facts: Array<[string, string | number | undefined]> = [];
  switch (node.kind) {
    case "run":
      facts.push(["run", node.run], ["mode", node.mode], ["requested by", node.by]);
      break;
    case "step":
      facts.push(["model", node.model], ["input tokens", node.usage?.inputTokens], ["output tokens", node.usage?.outputTokens], ["finished by", node.finishReason], ["committed", node.committed ? "yes" : "no"]);
      break;
    case "call":
      facts.push(["call", node.callId], ["error code", node.errorCode]);
      break;
    case "subagent":
      facts.push(["its session", node.subSession], ["call", node.callId]);
      break;
    case "wait":
      facts.push(["for", node.reason], ["tool", node.tool], ["call", node.callId]);
  }
  return (
    <>
      {facts.filter(([, value]) => value !== undefined && value !== "").map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name}=`} dir="auto">{value}</dd>])}
    </>
  );
}

function Content({ node, data }: { node: OutlineNode; data: string }) {
  switch (node.kind) {
    case "user":
    case "text":
    case "reasoning":
      return <><h3>Text, {count(bytesOf(node.text), "byte")}</h3><p class="said" dir="auto">{node.text}</p></>;
    case "call":
      return (
        <>
          <h3>Input, {count(bytesOf(node.input), "byte")}</h3>
          <JSONText text={node.input} />
          {node.output !== undefined && <><h3>Result, {count(bytesOf(node.output), "byte")}</h3><JSONText text={node.output} /></>}
          {node.error !== undefined && <><h3>Error</h3><p class="failure" dir="auto">{node.error}</p></>}
        </>
      );
    case "run":
    case "subagent":
      return node.output === undefined ? null : <><h3>Result</h3><JSONText text={node.output} /></>;
    case "step":
    case "wait":
      return null;
    default:
      return <><h3>Record</h3><JSONText text={rawMembers(data).get("data") ?? data} /></>;
  }
}
