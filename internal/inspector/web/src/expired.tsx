import { useEffect, useState } from "preact/hooks";

import { explain, getJSON } from "./api.js";
import { JSONText } from "./parts.js";

/** A message in the form of the snapshot. */
interface Message {
  id: string;
  role: string;
  parts: Array<{ type: string; text?: string }>;
}

/** The last messages of a session whose records have expired: they have no times, attempts and bytes any more. */
export function Expired({ id, view, through }: { id: string; view: string; through: number }) {
  const [messages, setMessages] = useState<Message[]>([]);
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const path = `/v1/sessions/${encodeURIComponent(id)}/messages${view && `?view=${encodeURIComponent(view)}`}`;
    getJSON<{ messages: Message[] }>(path).then((page) => setMessages(page.messages), (error: unknown) => setFailure(explain(error)));
  }, [id, view, through]);
  return (
    <section class="expired" aria-label="Messages of the snapshot" tabIndex={0}>
      <p class="notice">The records up to #{through} have expired, and with them times, attempts and bytes. These are the last messages, from the snapshot.</p>
      {failure !== "" && <p class="failure" role="alert">{failure}</p>}
      {messages.map((message) => (
        <div key={message.id} class={message.role === "user" ? "part user" : "part"}>
          <span class="who">{message.role}</span>
          {message.parts.map((part, i) => (part.text !== undefined ? <p key={i} class="said" dir="auto">{part.text}</p> : <JSONText key={i} text={JSON.stringify(part)} />))}
        </div>
      ))}
    </section>
  );
}
