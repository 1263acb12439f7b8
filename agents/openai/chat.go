package openai

import (
	"context"
	"encoding/json"
	"net/http"

	oai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/shared"
)

// chatWire implements chat completions.
type chatWire struct {
	service       oai.ChatCompletionService
	model         string
	sendReasoning bool
}

func newChatWire(model string, sendReasoning bool, options []option.RequestOption) chatWire {
	return chatWire{service: oai.NewChatCompletionService(options...), model: model, sendReasoning: sendReasoning}
}

func (w chatWire) ask(ctx context.Context, q request, p *stepWriter) (result, error) {
	var res *http.Response
	stream := w.service.NewStreaming(ctx, w.params(q), option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }() // the response was read
	if err := stream.Err(); err != nil {
		return result{}, err
	}
	var (
		end  result
		done bool
	)
	for piece, err := range events[oai.ChatCompletionChunk](res, &done) {
		switch {
		case err != nil && end.finish != "":
			return end, nil // the answer is complete; at most the usage is missing
		case err != nil:
			return result{}, err
		}
		if piece.JSON.Usage.Valid() {
			u := piece.Usage // cumulative: some servers send it with every piece
			end.usage = tokens{in: u.PromptTokens, out: u.CompletionTokens, cached: u.PromptTokensDetails.CachedTokens, written: u.PromptTokensDetails.CacheWriteTokens, known: true}
		}
		for _, choice := range piece.Choices {
			if choice.Index != 0 {
				continue // only one choice was requested
			}
			if err := w.handleEvent(ctx, choice.Delta, p); err != nil {
				return result{}, err
			}
			if choice.FinishReason != "" {
				end.finish = chatFinish(choice.FinishReason)
			}
		}
	}
	switch {
	case end.finish != "":
	case done && len(p.calls) > 0:
		end.finish = finishCalls // the server names no finish reason
	case done && p.emitted:
		end.finish = finishStop
	default:
		return result{}, errStreamCut
	}
	return end, nil
}

func (w chatWire) handleEvent(ctx context.Context, d oai.ChatCompletionChunkChoiceDelta, p *stepWriter) error {
	if err := p.think(ctx, reasoning(d.JSON.ExtraFields)); err != nil {
		return err
	}
	// A refusal is written like text.
	if err := p.text(ctx, d.Content+d.Refusal); err != nil {
		return err
	}
	for _, t := range d.ToolCalls {
		c := p.call(t.Index, t.ID, t.Function.Name)
		if err := p.addArgs(ctx, c, t.Function.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// reasoning returns a piece of reasoning. The API does not define it; servers use two names.
func reasoning(extra map[string]respjson.Field) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var text string
		if f, ok := extra[name]; ok && json.Unmarshal([]byte(f.Raw()), &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

func chatFinish(reason string) string {
	switch reason {
	case "stop":
		return finishStop
	case "length":
		return finishLength
	case "tool_calls", "function_call":
		return finishCalls
	case "content_filter":
		return finishFiltered
	}
	return finishOther
}

func (w chatWire) params(q request) oai.ChatCompletionNewParams {
	p := oai.ChatCompletionNewParams{
		Model:         w.model,
		StreamOptions: oai.ChatCompletionStreamOptionsParam{IncludeUsage: oai.Bool(true)},
	}
	if q.system != "" {
		p.Messages = append(p.Messages, oai.SystemMessage(q.system))
	}
	for _, e := range q.history {
		p.Messages = append(p.Messages, w.message(e))
	}
	for _, t := range q.tools {
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: t.params}
		if t.Description != "" {
			f.Description = oai.String(t.Description)
		}
		p.Tools = append(p.Tools, oai.ChatCompletionFunctionTool(f))
	}
	if q.requireTool {
		p.ToolChoice.OfAuto = oai.String("required")
	}
	return p
}

func (w chatWire) message(e entry) oai.ChatCompletionMessageParamUnion {
	switch e.role {
	case outcomeRole:
		return oai.ToolMessage(e.text, e.call)
	case modelRole:
		m := &oai.ChatCompletionAssistantMessageParam{}
		if w.sendReasoning {
			m.SetExtraFields(map[string]any{"reasoning_content": e.reasoning})
		}
		if e.text != "" {
			m.Content.OfString = oai.String(e.text)
		}
		for _, c := range e.calls {
			m.ToolCalls = append(m.ToolCalls, oai.ChatCompletionMessageToolCallUnionParam{OfFunction: &oai.ChatCompletionMessageFunctionToolCallParam{
				ID: c.id, Function: oai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.name, Arguments: c.args},
			}})
		}
		return oai.ChatCompletionMessageParamUnion{OfAssistant: m}
	}
	if len(e.files) == 0 {
		return oai.UserMessage(e.text) // text-only servers reject parts
	}
	var parts []oai.ChatCompletionContentPartUnionParam
	if e.text != "" {
		parts = append(parts, oai.TextContentPart(e.text))
	}
	for _, f := range e.files {
		switch {
		case isImage(f):
			parts = append(parts, oai.ImageContentPart(oai.ChatCompletionContentPartImageImageURLParam{URL: f.URL}))
		case isData(f):
			parts = append(parts, oai.FileContentPart(oai.ChatCompletionContentPartFileFileParam{FileData: oai.String(f.URL), Filename: oai.String(filename(f))}))
		default:
			parts = append(parts, oai.TextContentPart(fileReference(f)))
		}
	}
	return oai.UserMessage(parts)
}
