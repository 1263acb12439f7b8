// Package dialect has what the dialects of agents have in common besides the machine of package turn: their names, the ids that
// clients send, and the objects that translators read. A dialect is a package below codec.
package dialect

// Names of the dialects, as requests have them.
const (
	Native  = "native" // the chunks of the log, see codec/helix
	AISDK   = "aisdk"
	AGUI    = "agui"
	Kortyx  = "kortyx"
	Mastra  = "mastra"
	OpenAI  = "openai"  // only of models: there is no Writer
	Records = "records" // the records of the log, only of event streams

	LangGraph = "langgraph" // protocol events
	Anthropic = "anthropic" // Messages API and Claude Agent SDK: there is no Writer
)
