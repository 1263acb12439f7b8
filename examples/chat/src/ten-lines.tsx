import { useChat } from '@ai-sdk/react';
import type { Snapshot } from './snapshot';

// TenLines is the smallest chat, shown at the start of docs/chat.md.
export function TenLines({ id, snapshot }: { id: string; snapshot: Snapshot }) {
  const { messages, sendMessage } = useChat({ id, messages: snapshot.messages, resume: true });
  return (
    <form action={(form) => void sendMessage({ text: String(form.get('text')) })}>
      {messages.map((m) => <p key={m.id}>{m.parts.map((part) => (part.type === 'text' ? part.text : ''))}</p>)}
      <input name="text" aria-label="Your message" />
    </form>
  );
}
