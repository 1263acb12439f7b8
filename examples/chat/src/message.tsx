import { isToolUIPart, type UIMessage } from 'ai';
import type { ReactNode } from 'react';
import { Call, type Decide } from './call';

type Props = { message: UIMessage; edit?: (text: string) => void; versions?: ReactNode; decide?: Decide };

// Message is one message. Without decide it is not the last one: its run has ended, and a new message was sent
// instead of the answers to its calls.
export function Message({ message, edit, versions, decide }: Props) {
  return (
    <li className="message" data-role={message.role} data-message={message.id}>
      <span className="who">{message.role === 'user' ? 'You' : 'Agent'}</span>
      {message.parts.map((part, i) => (
        <Part key={i} part={part} decide={decide} />
      ))}
      {versions}
      {edit && <button type="button" onClick={() => edit(textOf(message))}>Edit</button>}
    </li>
  );
}

function Part({ part, decide }: { part: UIMessage['parts'][number]; decide?: Decide }) {
  if (isToolUIPart(part)) return <Call call={part} decide={decide} />;
  switch (part.type) {
    case 'text':
      return <p className="text">{part.text}</p>;
    case 'reasoning':
      return <details className="reasoning"><summary>Thoughts</summary>{part.text}</details>;
    case 'source-url':
      return <p className="source"><a href={safe(part.url)}>{part.title ?? part.url}</a></p>;
    case 'file':
      return <p className="source"><a href={safe(part.url)}>{part.filename ?? part.mediaType}</a></p>;
    default:
      return null; // not shown by this page
  }
}

// safe keeps http and https URLs. Other URLs in the output of a model could run a script.
function safe(url: string): string | undefined {
  return /^(https?|mailto):/i.test(url) ? url : undefined;
}

function textOf(message: UIMessage): string {
  return message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}
