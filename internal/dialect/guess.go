package dialect

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/nearest"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Names returns the names of the dialects that are read, the native one first.
func Names() []string {
	return []string{Native, AGUI, AISDK, Anthropic, Kortyx, LangGraph, Mastra, OpenAI}
}

// Unknown returns the text about a name that none of the dialects has which are possible, and the nearest of these, "" for none.
func Unknown(name string, possible []string) (text, near string) {
	hint := ":"
	if near = nearest.Name(name, possible); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	last := len(possible) - 1
	return fmt.Sprintf("there is no dialect %.80q%s want %s or %s", name, hint, strings.Join(possible[:last], ", "), possible[last]), near
}

var (
	ofAGUI     = regexp.MustCompile(`^(RUN|STEP|TEXT_MESSAGE|TOOL_CALL|REASONING|THINKING|STATE|MESSAGES|ACTIVITY|SUBAGENT)_[A-Z_]+$`)
	ofAISDK    = regexp.MustCompile(`^(start|finish|start-step|finish-step|abort|message-metadata|source-url|source-document|(text|reasoning)-(start|end)|tool-(input|output|approval)-.+)$`)
	ofMessages = regexp.MustCompile(`^(message_(start|delta|stop)|content_block_(start|delta|stop))$`)
	ofAgents   = regexp.MustCompile(`^(raw_(response|model_stream)_event|(run_item|agent_updated|tool_progress)_stream_event)$`)
	ofKortyx   = regexp.MustCompile(`^(session|trace|structured-data|tool-call-(start|result|error))$`)
)

// Guess returns the name of the dialect that a line looks like, "" if it looks like none.
func Guess(line []byte) string {
	has := func(name string) bool { return rawjson.Get(line, name) != nil }
	kind := TextAt(line, "type")
	switch {
	case rawjson.Kind(rawjson.Get(line, "choices")) == '[', strings.HasPrefix(kind, "response."), strings.HasPrefix(TextAt(line, "object"), "chat.completion"), ofAgents.MatchString(kind):
		return OpenAI
	case kind == "":
		return ""
	case kind == "event" && has("method") && has("params"):
		return LangGraph
	case kind != "error" && kind != "file" && isNative(chunk.Type(kind), has): // others have these two types too
		return Native
	case ofMessages.MatchString(kind), kind == "system" && has("subtype"), (kind == "assistant" || kind == "user") && has("message"),
		kind == "stream_event" && has("event"), kind == "result" && has("subtype"):
		return Anthropic
	case rawjson.Kind(rawjson.Get(line, "payload")) == '{':
		return Mastra
	case ofAGUI.MatchString(kind):
		return AGUI
	case ofAISDK.MatchString(kind), kind == "error" && has("errorText"), (kind == "text-delta" || kind == "reasoning-delta") && has("id") && has("delta"):
		return AISDK
	case ofKortyx.MatchString(kind):
		return Kortyx
	}
	return ""
}

// isNative reports whether a chunk of a type has all members that it needs.
func isNative(kind chunk.Type, has func(name string) bool) bool {
	schema := chunk.Schema(kind)
	for _, m := range schema {
		if m.Required && !m.Any && !has(m.Name) {
			return false
		}
	}
	return schema != nil || kind == chunk.TypeStreamActive
}

// Fits reports whether a line may be of a dialect. guess is the dialect that it looks like, "" if it looks like none. Lines of the AI SDK and of Kortyx look alike.
func Fits(name string, line []byte) (guess string, fits bool) {
	guess = Guess(line)
	alike := func(name string) bool { return name == AISDK || name == Kortyx }
	return guess, guess == "" || guess == name || alike(guess) && alike(name)
}
