package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tailrace/tailrace/auth"
)

// settingsOptions are those of the JSON files of settings: "read chat" are scopes, "own" sessions, "10.0.0.0/8" and "192.0.2.7" networks, "15m" a duration, "off" or
// a duration a limit, and "20/60" a rate. A member that is not known is refused.
var settingsOptions = json.JoinOptions(json.RejectUnknownMembers(true), json.WithUnmarshalers(json.JoinUnmarshalers(
	textOf(auth.ParseScope), textOf(parseSessions), textOf(parsePrefix), textOf(time.ParseDuration), textOf(parseRate), textOf(parseLimit),
)))

// textOf returns how a type is read that is a text in the files.
func textOf[T any](parse func(string) (T, error)) *json.Unmarshalers {
	return json.UnmarshalFunc(func(data []byte, to *T) error {
		var text *string
		err := json.Unmarshal(data, &text)
		if err == nil && text != nil {
			*to, err = parse(*text)
		}
		return err
	})
}

func decodeSettings(text []byte, to any) error {
	err := json.Unmarshal(text, to, settingsOptions)
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && wrong.Err != nil {
		return fmt.Errorf("%s: %w", wrong.JSONPointer, wrong.Err)
	}
	return err
}

// readSettings reads a file of settings.
func readSettings(file string, to any) error {
	text, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	return decodeSettings(text, to)
}
