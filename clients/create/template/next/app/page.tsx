"use client";
import { useEffect, useState } from "react";
import { useTailraceChat } from "tailrace-client/ai";

// The id of the chat is in the address, so that a reload and a second tab show the same chat.
export default function Page() {
  const [id, setId] = useState("");
  useEffect(() => {
    if (location.hash === "") location.hash = crypto.randomUUID();
    setId(location.hash.slice(1));
  }, []);
  return id !== "" && <Chat id={id} />;
}

function Chat({ id }: { id: string }) {
  const { messages, sendMessage, stop, status, error, connection } = useTailraceChat({ id });
  const busy = status === "submitted" || status === "streaming";
  return (
    <main data-status={status}>
      {messages.map(({ id, role, parts }) => <p key={id} className={role}>{parts.map((part) => (part.type === "text" ? part.text : ""))}</p>)}
      {error && <p role="alert">{error.message}</p>}
      {connection !== "live" && <p role="status">{connection}</p>}
      <form action={(form) => void sendMessage({ text: String(form.get("text")) })}>
        <input name="text" aria-label="Your message" placeholder="Ask something" required />
        {busy ? <button type="button" onClick={() => void stop()}>Stop</button> : <button>Send</button>}
      </form>
    </main>
  );
}
