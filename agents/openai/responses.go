package openai

import (
	"context"
	"net/http"

	oai "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// responsesWire speaks the Responses API. The endpoint keeps nothing: all that was
// said goes with every question.
type responsesWire struct {
	service responses.ResponseService
	model   string
}

func newResponsesWire(model string, options []option.RequestOption) responsesWire {
	return responsesWire{service: responses.NewResponseService(options...), model: model}
}

func (w responsesWire) ask(ctx context.Context, q question, p *speaker) (ending, error) {
	var res *http.Response
	stream := w.service.NewStreaming(ctx, w.params(q), option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }() // what it held is over
	if err := stream.Err(); err != nil {
		return ending{}, err
	}
	for e, err := range events[responses.ResponseStreamEventUnion](res) {
		if err != nil {
			return ending{}, err
		}
		switch e.Type {
		case "response.completed":
			end := ending{finish: finishStop, spent: responsesTokens(e.Response)}
			if len(p.calls) > 0 {
				end.finish = finishCalls
			}
			return end, nil
		case "response.incomplete":
			return ending{finish: incomplete(e.Response), spent: responsesTokens(e.Response)}, nil
		case "response.failed":
			r := e.Response.Error
			return ending{}, &reported{problem{Message: r.Message, Code: string(r.Code)}}
		case "error":
			return ending{}, &reported{problem{Message: e.Message, Code: e.Code}}
		default:
			if err := w.hear(ctx, e, p); err != nil {
				return ending{}, err
			}
		}
	}
	return ending{}, errCut
}

func (w responsesWire) hear(ctx context.Context, e responses.ResponseStreamEventUnion, p *speaker) error {
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return p.text(ctx, e.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return p.think(ctx, e.Delta)
	case "response.reasoning_summary_part.done", "response.reasoning_text.done":
		return p.thought(ctx)
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			p.call(e.OutputIndex, e.Item.CallID, e.Item.Name)
		}
	case "response.function_call_arguments.delta":
		return p.more(ctx, p.call(e.OutputIndex, "", ""), e.Delta)
	case "response.function_call_arguments.done":
		return p.whole(ctx, p.call(e.OutputIndex, "", ""), e.Arguments)
	case "response.output_item.done":
		if e.Item.Type == "function_call" {
			return p.whole(ctx, p.call(e.OutputIndex, e.Item.CallID, e.Item.Name), e.Item.Arguments.OfString)
		}
	}
	return nil // an event of a kind that says nothing to us, or is said again by another one
}

func incomplete(r responses.Response) string {
	switch r.IncompleteDetails.Reason {
	case "max_output_tokens", "max_tokens":
		return finishLength
	case "content_filter":
		return finishFiltered
	}
	return finishOther
}

func (w responsesWire) params(q question) responses.ResponseNewParams {
	p := responses.ResponseNewParams{Model: w.model, Store: oai.Bool(false)}
	if q.system != "" {
		p.Instructions = oai.String(q.system)
	}
	items := responses.ResponseInputParam{}
	for _, e := range q.said {
		items = append(items, responsesItems(e)...)
	}
	p.Input.OfInputItemList = items
	for _, t := range q.tools {
		f := &responses.FunctionToolParam{Name: t.Name, Parameters: t.params, Strict: oai.Bool(false)}
		if t.Description != "" {
			f.Description = oai.String(t.Description)
		}
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: f})
	}
	if q.must {
		p.ToolChoice.OfToolChoiceMode = oai.Opt(responses.ToolChoiceOptionsRequired)
	}
	return p
}

func responsesItems(e entry) responses.ResponseInputParam {
	switch e.role {
	case outcome:
		item := responses.ResponseInputItemParamOfFunctionCallOutput(e.text)
		item.OfFunctionCallOutput.CallID = oai.String(e.call)
		return responses.ResponseInputParam{item}
	case model:
		var items responses.ResponseInputParam
		if e.text != "" {
			items = append(items, responses.ResponseInputItemParamOfMessage(e.text, responses.EasyInputMessageRoleAssistant))
		}
		for _, c := range e.calls {
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(c.args, c.id, c.name))
		}
		return items
	}
	if len(e.files) == 0 {
		return responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(e.text, responses.EasyInputMessageRoleUser)}
	}
	var parts responses.ResponseInputMessageContentListParam
	if e.text != "" {
		parts = append(parts, responses.ResponseInputContentParamOfInputText(e.text))
	}
	for _, f := range e.files {
		switch {
		case isImage(f):
			image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
			image.OfInputImage.ImageURL = oai.String(f.URL)
			parts = append(parts, image)
		case isData(f):
			parts = append(parts, responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{
				FileData: oai.String(f.URL), Filename: oai.String(filename(f)),
			}})
		default:
			parts = append(parts, responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{FileURL: oai.String(f.URL)}})
		}
	}
	return responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser)}
}

func responsesTokens(r responses.Response) tokens {
	if !r.JSON.Usage.Valid() {
		return tokens{}
	}
	u := r.Usage
	return tokens{in: u.InputTokens, out: u.OutputTokens, cached: u.InputTokensDetails.CachedTokens, written: u.InputTokensDetails.CacheWriteTokens, known: true}
}
