import {
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';

type Chat = { messages: UIMessage[] };

// isAnswered reports whether the last step of a chat asked something, and all of it
// is answered: by the rules of the AI SDK, for browser tools and for approvals.
export function isAnswered(chat: Chat): boolean {
  return lastAssistantMessageIsCompleteWithToolCalls(chat) || lastAssistantMessageIsCompleteWithApprovalResponses(chat);
}

// sendsAnswers says when to post what people and browser tools have answered: when
// the last question of a step is answered, and once. Without "once" an answer that
// was stopped before it could go on would be posted without end, because the
// question stays the last thing in the message.
export function sendsAnswers(): (chat: Chat) => boolean {
  let sent = '';
  return ({ messages }) => {
    if (!isAnswered({ messages })) return false;
    const answers = messages.at(-1)!.parts.filter(isToolUIPart).map((call) => call.toolCallId).join();
    if (answers === sent) return false;
    sent = answers;
    return true;
  };
}
