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

// chatWire speaks chat completions.
type chatWire struct {
	service oai.ChatCompletionService
	model   string
}

func newChatWire(model string, options []option.RequestOption) chatWire {
	return chatWire{service: oai.NewChatCompletionService(options...), model: model}
}

func (w chatWire) ask(ctx context.Context, q question, p *speaker) (ending, error) {
	var res *http.Response
	stream := w.service.NewStreaming(ctx, w.params(q), option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }() // what it held is over
	if err := stream.Err(); err != nil {
		return ending{}, err
	}
	var end ending
	for piece, err := range events[oai.ChatCompletionChunk](res) {
		switch {
		case err != nil && end.finish != "":
			return end, nil // all was said; what is missing is a count at most
		case err != nil:
			return ending{}, err
		}
		if piece.JSON.Usage.Valid() {
			u := piece.Usage // of all so far: some servers tell it with every piece
			end.spent = tokens{in: u.PromptTokens, out: u.CompletionTokens, cached: u.PromptTokensDetails.CachedTokens, written: u.PromptTokensDetails.CacheWriteTokens, known: true}
		}
		for _, choice := range piece.Choices {
			if choice.Index != 0 {
				continue // nobody asked for another one
			}
			if err := w.hear(ctx, choice.Delta, p); err != nil {
				return ending{}, err
			}
			if choice.FinishReason != "" {
				end.finish = chatFinish(choice.FinishReason)
			}
		}
	}
	if end.finish == "" {
		return ending{}, errCut
	}
	return end, nil
}

func (w chatWire) hear(ctx context.Context, d oai.ChatCompletionChunkChoiceDelta, p *speaker) error {
	if err := p.think(ctx, reasoning(d.JSON.ExtraFields)); err != nil {
		return err
	}
	// A refusal is the answer: whoever asked is to read it.
	if err := p.text(ctx, d.Content+d.Refusal); err != nil {
		return err
	}
	for _, t := range d.ToolCalls {
		c := p.call(t.Index, t.ID, t.Function.Name)
		if err := p.more(ctx, c, t.Function.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// reasoning is a piece of reasoning. The API has no name for it; servers have two.
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

func (w chatWire) params(q question) oai.ChatCompletionNewParams {
	p := oai.ChatCompletionNewParams{
		Model:         w.model,
		StreamOptions: oai.ChatCompletionStreamOptionsParam{IncludeUsage: oai.Bool(true)},
	}
	if q.system != "" {
		p.Messages = append(p.Messages, oai.SystemMessage(q.system))
	}
	for _, e := range q.said {
		p.Messages = append(p.Messages, chatMessage(e))
	}
	for _, t := range q.tools {
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: t.params}
		if t.Description != "" {
			f.Description = oai.String(t.Description)
		}
		p.Tools = append(p.Tools, oai.ChatCompletionFunctionTool(f))
	}
	if q.must {
		p.ToolChoice.OfAuto = oai.String("required")
	}
	return p
}

func chatMessage(e entry) oai.ChatCompletionMessageParamUnion {
	switch e.role {
	case outcome:
		return oai.ToolMessage(e.text, e.call)
	case model:
		m := &oai.ChatCompletionAssistantMessageParam{}
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
		return oai.UserMessage(e.text) // servers for text alone take no parts
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
			parts = append(parts, oai.TextContentPart(mention(f)))
		}
	}
	return oai.UserMessage(parts)
}
