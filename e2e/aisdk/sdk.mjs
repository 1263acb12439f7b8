// The parts of the packages that sdk_client.mjs uses. The test copies this file
// next to the node_modules of each major version, so that the imports resolve
// to that version.
export {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
  validateUIMessages,
} from 'ai';
export { Chat } from '@ai-sdk/react';
