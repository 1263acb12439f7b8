import { useTailraceChat } from 'tailrace-client/ai';

// TenLines is the smallest chat, shown at the start of docs/guides/chat-page.md.
export function TenLines({ id }: { id: string }) {
  const { messages, sendMessage } = useTailraceChat({ id });
  return (
    <form action={(form) => void sendMessage({ text: String(form.get('text')) })}>
      {messages.map((m) => <p key={m.id}>{m.parts.map((part) => (part.type === 'text' ? part.text : ''))}</p>)}
      <input name="text" aria-label="Your message" />
    </form>
  );
}
