package price

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

// readLiteLLM reads LiteLLM's list. Entries without prices for tokens, such as those of image models, are left out.
func readLiteLLM(data []byte) (*List, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	l := &List{currency: "USD"}
	for _, name := range slices.Sorted(maps.Keys(file)) {
		var e struct {
			Provider string       `json:"litellm_provider"`
			Input    *json.Number `json:"input_cost_per_token"`
			Output   *json.Number `json:"output_cost_per_token"`
			Cached   *json.Number `json:"cache_read_input_token_cost"`
			Written  *json.Number `json:"cache_creation_input_token_cost"`
		}
		if err := json.Unmarshal(file[name], &e); err != nil || e.Input == nil || e.Output == nil {
			continue // of another kind
		}
		m := model{match: escape(name)}
		if base, ok := strings.CutPrefix(name, e.Provider+"/"); ok && e.Provider != "" { // workers name the model as its provider does
			m.match, m.provider = escape(base), e.Provider
		}
		var errs []error
		var err error
		m.input, err = amount(*e.Input)
		errs = append(errs, err)
		m.output, err = amount(*e.Output)
		errs = append(errs, err)
		if e.Cached != nil {
			m.cached, err = amount(*e.Cached)
			errs = append(errs, err)
		}
		if e.Written != nil {
			m.written, err = amount(*e.Written)
			errs = append(errs, err)
		}
		if errors.Join(errs...) == nil {
			l.models = append(l.models, m)
		}
	}
	if len(l.models) == 0 {
		return nil, errors.New("prices: want a member prices, or the list of LiteLLM")
	}
	return l, nil
}

// escape returns a pattern that matches the name only.
func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}
