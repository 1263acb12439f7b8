import { Component } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { CallNode, OutlineNode } from "../../../../clients/ts/src/outline.js";
import { explain, postJSON } from "./api.js";
import { reasonAgainst, useEdge } from "./edge.js";
import { count } from "./format.js";
import type { View } from "./live.js";
import { Badge, JSONText } from "./parts.js";
import { labelOf, previewOf, statusOfNode } from "./words.js";

/** How many parts of a conversation are shown at first, and how many more at a time. */
const pageSize = 200;

/** The kinds that have a place in a conversation. */
const shown: ReadonlySet<string> = new Set(["user", "text", "reasoning", "call", "subagent", "error", "file", "source", "output", "removed", "interrupted", "run", "wait"]);

/** What the user and the agents said, in order. A sub-agent is in the place of its call. */
export function Conversation({ live, selected = "", onSelect }: { live: View; selected?: string; onSelect: (id: string) => void }) {
  const { outline } = live;
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    if (selected !== "") box.current?.querySelector(`[data-node="${CSS.escape(selected)}"]`)?.scrollIntoView({ block: "nearest" });
  }, [selected]);
  const bySession = useMemo(() => {
    const map = new Map<string, OutlineNode[]>();
    const delegated = new Set(outline.nodes.map((node) => (node.kind === "subagent" ? `${node.session} ${node.callId}` : "")));
    for (const node of outline.nodes) {
      if (!shown.has(node.kind) || (node.kind === "call" && delegated.has(`${node.session} ${node.callId}`))) continue;
      const list = map.get(node.session);
      if (list === undefined) map.set(node.session, [node]);
      else list.push(node);
    }
    return map;
  }, [outline, outline.position]);
  return (
    <section ref={box} class="conversation" aria-label="Conversation" tabIndex={0}>
      <Talk session={live.id} bySession={bySession} onSelect={onSelect} root={live.id} acts={!live.readOnly && live.connection.state !== "lost"} above={[]} />
    </section>
  );
}

interface TalkProps {
  session: string;
  root: string;
  /** Calls that wait for a decision have buttons. */
  acts: boolean;
  bySession: ReadonlyMap<string, OutlineNode[]>;
  onSelect: (id: string) => void;
  /** The sessions of the agents that started this one. A record may name any session as a sub-agent, also one of these. */
  above: readonly string[];
}

/** What one agent said. */
function Talk(props: TalkProps) {
  const [limit, setLimit] = useState(pageSize);
  const nodes = props.above.includes(props.session) ? [] : (props.bySession.get(props.session) ?? []);
  const hidden = Math.max(nodes.length - limit, 0);
  return (
    <div class="talk" data-session={props.session}>
      {hidden > 0 && <button type="button" onClick={() => setLimit(limit + pageSize)}>{count(hidden, "earlier part")}</button>}
      {nodes.slice(hidden).map((node) =>
        node.kind === "subagent" ? (
          <details key={node.id} class="part subagent" open={props.above.length < 2}>
            <summary>{labelOf(node)} <Badge status={statusOfNode(node) ?? { word: "", sign: "", tone: "quiet" }} /></summary>
            <Talk {...props} session={node.subSession} above={[...props.above, props.session]} />
          </details>
        ) : (
          <Part key={node.id} node={node} root={props.root} acts={props.acts} onSelect={props.onSelect} />
        ),
      )}
    </div>
  );
}

interface PartProps {
  node: OutlineNode;
  root: string;
  acts: boolean;
  onSelect: (id: string) => void;
}

/** A part of a conversation. It is rendered again only if its node has changed. */
class Part extends Component<PartProps> {
  override shouldComponentUpdate(next: PartProps): boolean {
    return next.node !== this.props.node || (next.acts !== this.props.acts && next.node.kind === "call");
  }

  override render() {
    const { node, root, acts, onSelect } = this.props;
    switch (node.kind) {
      case "user":
        return <div class="part user" data-node={node.id}><Who name="user" /><Said text={node.text} />{node.files > 0 && <p class="quiet">{count(node.files, "file")}</p>}</div>;
      case "text":
        return <div class="part text" data-node={node.id}><Said text={node.text} /></div>;
      case "reasoning":
        return <details class="part reasoning" data-node={node.id} open={false}><summary>reasoning</summary><Said text={node.text} /></details>;
      case "call":
        return <Call node={node} root={root} acts={acts} onSelect={onSelect} />;
      case "run":
        return node.status === "failed" ? <p class="part failure" data-node={node.id}>run failed: {node.error}</p> : null;
      case "wait":
        return node.to === undefined ? <p class="part waits" data-node={node.id}>waits {previewOf(node)}</p> : null;
      case "removed":
        return <p class="part quiet" data-node={node.id}>{labelOf(node)}</p>;
      case "error":
        return <p class="part failure" data-node={node.id} dir="auto">{node.title}</p>;
      case "interrupted":
        return <p class="part quiet" data-node={node.id}>stopped{node.title && `: ${node.title}`}</p>;
      case "file":
      case "source":
      case "output":
        return <button type="button" class="part event" data-node={node.id} onClick={() => onSelect(node.id)}>{node.kind}: {node.title}</button>;
      default:
        return null;
    }
  }
}

/** A text as it is stored. Line breaks at its end are not shown. */
function Said({ text }: { text: string }) {
  const shown = text.trimEnd();
  return <p class="said" dir="auto">{shown}<span hidden>{text.slice(shown.length)}</span></p>;
}

function Who({ name }: { name: string }) {
  return <span class="who">{name}</span>;
}

function Call({ node, root, acts, onSelect }: PartProps & { node: CallNode }) {
  const status = statusOfNode(node);
  return (
    <div class="part call" data-node={node.id}>
      <button type="button" class="title" onClick={() => onSelect(node.id)}>
        <code dir="auto">{node.name}</code> {status !== undefined && <Badge status={status} />}
      </button>
      {node.error !== undefined && <p class="failure" dir="auto">{node.error}</p>}
      {node.reason !== undefined && <p class="quiet" dir="auto">{node.reason}</p>}
      {node.status === "asking" && node.approvalId !== undefined && acts && <Decide node={node} root={root} />}
    </div>
  );
}

/** The decision of a user on a call. The first answer counts. The id of a call of a sub-agent begins with its session. */
function Decide({ node, root }: { node: CallNode; root: string }) {
  const [failure, setFailure] = useState("");
  const reason = reasonAgainst(useEdge(), "answer");
  const answer = (approved: boolean) => {
    const toolCallId = node.session === root ? node.callId : `${node.session}/${node.callId}`;
    const body = { kind: "approval-response", toolCallId, approvalId: node.approvalId, approved };
    postJSON(`/api/chat/${encodeURIComponent(root)}/answers`, body).then(() => setFailure(""), (error: unknown) => setFailure(explain(error)));
  };
  return (
    <div class="decide">
      <JSONText text={node.input} />
      <button type="button" disabled={reason !== ""} title={reason} onClick={() => answer(true)}>Allow</button>
      <button type="button" disabled={reason !== ""} title={reason} onClick={() => answer(false)}>Deny</button>
      {failure !== "" && <p class="failure" role="alert">{failure}</p>}
    </div>
  );
}
