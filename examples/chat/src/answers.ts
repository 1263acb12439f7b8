import {
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';

// sendsAnswers says when to post what people and browser tools have answered: when
// the last question of a step is answered, and once. Without "once" an answer that
// was stopped before it could go on would be posted without end, because the
// question stays the last thing in the message.
export function sendsAnswers(): (chat: { messages: UIMessage[] }) => boolean {
  let sent = '';
  return ({ messages }) => {
    if (
      !lastAssistantMessageIsCompleteWithToolCalls({ messages }) &&
      !lastAssistantMessageIsCompleteWithApprovalResponses({ messages })
    ) {
      return false;
    }
    const answers = messages.at(-1)!.parts.filter(isToolUIPart).map((call) => call.toolCallId).join();
    if (answers === sent) return false;
    sent = answers;
    return true;
  };
}
