package otlp

// schemaURL is the version of the semantic conventions of the names in this file. The conventions for generative AI are not stable. They have a repository of
// their own since 2026, https://github.com/open-telemetry/semantic-conventions-genai, and the form of this URL is from there.
const schemaURL = "https://opentelemetry.io/schemas/gen-ai/1.42.0"

// The values of gen_ai.operation.name, with which the name of a span begins.
const (
	invokeAgent = "invoke_agent"
	chat        = "chat"
	executeTool = "execute_tool"
)

// Names of attributes of the conventions.
const (
	keyService       = "service.name"
	keyErrorType     = "error.type"
	keySessionID     = "session.id"
	keyUserID        = "user.id"
	keyOperation     = "gen_ai.operation.name"
	keyAgentName     = "gen_ai.agent.name"
	keyConversation  = "gen_ai.conversation.id"
	keyProvider      = "gen_ai.provider.name"
	keyRequestModel  = "gen_ai.request.model"
	keyResponseModel = "gen_ai.response.model"
	keyFinishReasons = "gen_ai.response.finish_reasons"
	keyFirstChunk    = "gen_ai.response.time_to_first_chunk" // seconds
	keyInputUsage    = "gen_ai.usage.input_tokens"
	keyOutputUsage   = "gen_ai.usage.output_tokens"
	keyCacheRead     = "gen_ai.usage.cache_read.input_tokens"
	keyCacheWrite    = "gen_ai.usage.cache_write.input_tokens"
	keyCacheCreation = "gen_ai.usage.cache_creation.input_tokens" // the name of keyCacheWrite until the middle of 2026, which many receivers read
	keyReasoning     = "gen_ai.usage.reasoning.output_tokens"
	keyToolName      = "gen_ai.tool.name"
	keyToolCall      = "gen_ai.tool.call.id"
	keyToolType      = "gen_ai.tool.type"

	// These have content.
	keyInputMessages  = "gen_ai.input.messages"
	keyOutputMessages = "gen_ai.output.messages"
	keyArguments      = "gen_ai.tool.call.arguments"
	keyResult         = "gen_ai.tool.call.result"

	// keyCost is not in the conventions, which had no name for it when this was written; Langfuse and others read it.
	keyCost = "gen_ai.usage.cost"
)

// Names of attributes of Tailrace.
const (
	keyTenant      = "tailrace.tenant"
	keySession     = "tailrace.session"
	keyRun         = "tailrace.run"
	keyTurn        = "tailrace.turn"
	keyStep        = "tailrace.step"
	keyStatus      = "tailrace.status"
	keySequence    = "tailrace.sequence" // of the record that the span was made from: of several spans with the same id, the highest one counts
	keyIncomplete  = "tailrace.incomplete"
	keyMode        = "tailrace.mode"
	keyAttempts    = "tailrace.attempts"
	keyUserIssuer  = "tailrace.user.issuer"
	keyCurrency    = "tailrace.cost.currency"
	keyCostSource  = "tailrace.cost.source" // reported or list
	keyWait        = "tailrace.wait"        // approval or client_tool
	keyApproved    = "tailrace.approved"
	keyAutomatic   = "tailrace.decided_automatically"
	keyParent      = "tailrace.parent.session"
	keyParentCall  = "tailrace.parent.call"
	spanDeleted    = "tailrace.session.deleted"
	scopeName      = "github.com/tailrace/tailrace/sink/otlp"
	serviceName    = "tailrace"
	waitOperation  = "wait"
	toolIsFunction = "function"
)
