package chunktest

import (
	"reflect"

	"github.com/tailrace/tailrace/chunk"
)

// Sample is a valid chunk with a name for a sub-test: "text_delta/full".
type Sample struct {
	Name  string
	Chunk chunk.Chunk
}

// All returns, for every type, every control record and one unknown type, a chunk with all members and one with the required members only, in the order of the
// schema. The chunks are new at each call.
func All() []Sample {
	var all []Sample
	for _, b := range bodies() {
		name := string(Of(b).Type())
		all = append(all, Sample{name + "/full", full(b)}, Sample{name + "/minimal", minimal(b)})
	}
	return append(all, Sample{"unknown/full", unknown()})
}

// Types returns the types of All except the unknown one.
func Types() []chunk.Type {
	var types []chunk.Type
	for _, b := range bodies() {
		types = append(types, Of(b).Type())
	}
	return types
}

// Of returns a chunk with this body of agent "root" with the type "planner" in step 1.
func Of(b chunk.Body) chunk.Chunk {
	return chunk.Chunk{AgentID: "root", AgentType: "planner", Timestamp: 1_767_225_600_000, Step: 1, Body: b}
}

// Full returns the sample of a type with all its members. It panics for a type that is not in Types.
func Full(t chunk.Type) chunk.Chunk { return full(bodyOf(t)) }

// Minimal returns the sample of a type with its required members only. It panics for a type that is not in Types.
func Minimal(t chunk.Type) chunk.Chunk { return minimal(bodyOf(t)) }

func bodyOf(t chunk.Type) chunk.Body {
	for _, b := range bodies() {
		if Of(b).Type() == t {
			return b
		}
	}
	panic("chunktest: no sample of type " + string(t))
}

func full(b chunk.Body) chunk.Chunk {
	c := Of(b)
	c.Extra = []chunk.Member{
		{Name: "x-trace", Value: chunk.Value(`{"hop" : 1, "big": 123456789012345678901234567890, "half": "\ud83d"}`)},
		{Name: "Delta", Value: chunk.Value(`"names are case-sensitive"`)},
	}
	return c
}

// minimal removes the optional members, and uses the shortest base members.
func minimal(b chunk.Body) chunk.Chunk {
	if _, ok := b.(chunk.StatePatch); ok {
		b = chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "remove", Path: "/draft"}}}
	}
	v := reflect.New(reflect.TypeOf(b)).Elem()
	v.Set(reflect.ValueOf(b))
	strip(v)
	body, ok := reflect.TypeAssert[chunk.Body](v)
	if !ok {
		panic("chunktest: a body stripped is no body")
	}
	return chunk.Chunk{AgentID: "a", Body: body}
}

// strip removes the optional members of a struct, which are pointers, the Extra members and the lists of files and data.
func strip(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		name := v.Type().Field(i).Name
		switch {
		case f.Kind() == reflect.Pointer, name == "Extra", name == "Files", f.Type() == reflect.TypeFor[[]chunk.InputData]():
			f.SetZero()
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			for j := range f.Len() {
				strip(f.Index(j))
			}
		}
	}
}

func unknown() chunk.Chunk {
	raw := `{"agentId":"root","type":"hologram_frame","agentType":"planner","timestamp":1767225600000,"step":2,"frame":[1.0,-0,1e400],"half":"\udc00"}`
	return chunk.Chunk{
		AgentID: "root", AgentType: "planner", Timestamp: 1_767_225_600_000, Step: 2,
		Body: chunk.Opaque{Kind: "hologram_frame", Raw: chunk.Value(raw)},
	}
}

// bodies returns one body of each type with all its members.
func bodies() []chunk.Body {
	return append(append(contentBodies(), lifecycleBodies()...), controlBodies()...)
}

func contentBodies() []chunk.Body {
	input := chunk.Value(`{"path":"/tmp/a \"b\"","depth":9007199254740993,"ratio":1.0,"neg":-0,"half":"\ud83d"}`)
	return []chunk.Body{
		chunk.TextDelta{Delta: "Grüße, Привет 😀\n\ndata: \x00 \u2028 \xed\xa0\xbd"},
		chunk.Thinking{Content: "Let me see …", IsComplete: true},
		chunk.ToolArgStreamStart{ToolCallID: "c1", ToolName: "list_files"},
		chunk.ToolArgStreamDelta{ToolCallID: "c1", Delta: `{"path":"/t`},
		chunk.ToolArgStreamEnd{ToolCallID: "c1"},
		chunk.ToolStart{ToolCallID: "c1", ToolName: "list_files", Arguments: input},
		chunk.ToolEnd{
			ToolCallID: "c1", ToolName: "list_files", Result: chunk.Value(`["a","b"]`),
			Error: new(""), ErrorCode: new("tool_timeout"), ProviderExecuted: new(false),
		},
		chunk.ToolApprovalRequest{
			ToolCallID: "c2", ToolName: "delete_file", ApprovalID: "run1::c2", Input: input, IsAutomatic: new(true),
		},
		chunk.ToolApprovalResponse{
			ToolCallID: "c2", ToolName: "delete_file", ApprovalID: "run1::c2", Approved: false,
			Reason: new("not today"), IsAutomatic: new(false),
		},
		chunk.ToolInputError{
			ToolCallID: "c3", ToolName: "search", Error: "not JSON", PartialInput: new(chunk.Value(`"{\"q\":"`)),
		},
		chunk.ToolOutputError{ToolCallID: "c3", ToolName: "search", Error: "connection reset"},
		chunk.SubagentStart{SubAgentType: "researcher", SubSessionID: "child1", CallID: "c4"},
		chunk.SubagentEnd{SubAgentType: "researcher", SubSessionID: "child1", CallID: "c4", Result: chunk.Value(`null`)},
		chunk.Custom{EventName: "progress", Data: chunk.Value(`{"done":3,"of":7}`)},
		chunk.StatePatch{Patches: []chunk.PatchOp{
			{Op: "add", Path: "/todo/-", Value: new(chunk.Value(`null`))},
			{Op: "remove", Path: ""},
			{Op: "replace", Path: "/a~1b/~0", Value: new(chunk.Value(`{"n":1}`))},
			{Op: "move", Path: "/b", From: new("/a")},
			{Op: "copy", Path: "/c", From: new("")},
			{Op: "test", Path: "/c", Value: new(chunk.Value(`1.50`)), Extra: extra()},
		}},
		chunk.Error{
			Error: "the model is busy", Code: new("provider_overloaded"), ErrorDetail: detail(), Recoverable: true,
		},
		chunk.Output{Output: chunk.Value(`{"answer":42}`)},
		chunk.SourceURL{SourceID: "s1", URL: "https://example.org/?q=a&b", Title: new("An example")},
		chunk.SourceDocument{SourceID: "s2", MediaType: "application/pdf", Title: "Report", Filename: new("report.pdf")},
	}
}

func lifecycleBodies() []chunk.Body {
	return []chunk.Body{
		chunk.StepStart{StepID: new("step-1"), StartedAt: new(int64(1_767_225_599_200))},
		chunk.StepEnd{
			StepID: new("step-1"),
			Usage: &chunk.Usage{
				InputTokens: "1200", OutputTokens: "3.5e1", CachedTokens: new(chunk.Number("0")),
				CacheWriteTokens: new(chunk.Number("-0")), ReasoningTokens: new(chunk.Number("17")), Cost: new("0.00001425"), Currency: new("EUR"), Extra: extra(),
			},
			FinishReason: new("tool-calls"), Model: new("gpt-5-mini-2025-08-07"), RequestModel: new("gpt-5-mini"), Provider: new("openai"),
		},
		chunk.File{URL: "data:image/png;base64,iVBORw0KGgo=", MediaType: "image/png", Filename: new("plot.png")},
		chunk.RunInterrupted{RunID: "run1", CheckpointID: new("cp1"), Reason: new("user")},
		chunk.RunResumed{RunID: "run2", FromCheckpointID: new("cp1"), FromStepCount: 3, Mode: "from_checkpoint"},
		chunk.RunPaused{
			RunID: "run2", Reason: "approval", PendingToolName: new("delete_file"), PendingToolCallID: new("c2"),
		},
		chunk.ExecutorSuperseded{Reason: new("another worker took over")},
		chunk.CheckpointCreated{RunID: "run2", CheckpointID: "cp2", StepCount: 4},
		chunk.StepCommitted{RunID: "run2", StepID: "step-2", CheckpointID: "cp2"},
		chunk.StepDiscarded{RunID: "run2", StepID: "step-3", Reason: "crash"},
		chunk.StreamResync{
			CheckpointID: "cp2", StepCount: 4, MessageCount: 6, FromSequence: 9007199254740991, Reason: "crash_recovery",
		},
		chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: chunk.Value(`{"toolCallIds":["c1"]}`)},
	}
}

func controlBodies() []chunk.Body {
	return []chunk.Body{
		chunk.RunStarted{
			RunID: "run1", Epoch: 1, Mode: "execute", By: &chunk.Principal{Subject: "ann", Issuer: new("https://login.example"), Extra: extra()},
			Input: []chunk.InputMessage{{
				Content: "What is on this picture?",
				Files: []chunk.InputFile{
					{URL: "https://example.org/p.png", MediaType: "image/png", Filename: new("p.png"), Extra: extra()},
				},
				Data:            []chunk.InputData{{Name: "place", ID: new("d1"), Data: chunk.Value(`{"lat":46.9}`), Extra: extra()}},
				Metadata:        new(chunk.Value(`{"hidden":true}`)),
				ClientMessageID: new("m1"),
				Extra:           extra(),
			}},
			CheckpointID: new("cp0"),
			Parent:       &chunk.Parent{SessionID: "root", CallID: "c4", Extra: extra()},
			Model:        new("claude-sonnet-4-5"), Provider: new("anthropic"),
		},
		chunk.StreamPaused{Reason: new("approval")},
		chunk.StreamActive{},
		chunk.StreamEnd{StreamID: "root", FinalOutput: new(chunk.Value(`null`))},
		chunk.StreamFailed{Error: "the worker died", ErrorDetail: detail()},
		chunk.Truncated{
			TruncatedAtStep: 2, MinSequence: 10, FromSequence: 17, AtSequence: 40,
			Removed: []chunk.OrdinalRange{{First: 5, Last: 9, Extra: extra()}, {First: 12, Last: 12}},
		},
	}
}

func detail() *chunk.ErrorDetail {
	return &chunk.ErrorDetail{
		Message: "503 from the provider", Code: new("overloaded"), Category: new("provider"),
		Cause: new("HTTP 503"), Retryable: new(true), Extra: extra(),
	}
}

func extra() []chunk.Member {
	return []chunk.Member{{Name: "x-more", Value: chunk.Value(`17`)}}
}
