package main

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
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

// decodeSettings reads the text of a file. An error names the member and what it wants, as "oidc[0].audiences: want an array of strings".
func decodeSettings(text []byte, to any) error {
	err := json.Unmarshal(text, to, settingsOptions)
	wrong, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return err
	}
	var at strings.Builder
	for member := range wrong.JSONPointer.Tokens() {
		if _, err := strconv.Atoi(member); err == nil {
			at.WriteString("[" + member + "]")
		} else {
			at.WriteString("." + member)
		}
	}
	name := cmp.Or(strings.TrimPrefix(at.String(), "."), "the file")
	if inner, ok := errors.AsType[*json.SemanticError](wrong.Err); ok { // of textOf
		wrong = inner
	}
	switch {
	case errors.Is(wrong.Err, json.ErrUnknownName):
		return fmt.Errorf("%s: there is no such member", name)
	case wrong.Err != nil && wrong.JSONKind != '"' && wrong.GoType != nil && reflect.PointerTo(wrong.GoType).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return fmt.Errorf("%s: want a string", name)
	case wrong.Err == nil && wrong.GoType != nil:
		return fmt.Errorf("%s: want %s", name, wantedJSON(wrong.GoType))
	}
	return fmt.Errorf("%s: %w", name, cmp.Or(wrong.Err, err))
}

// wantedJSON describes the JSON of a type.
func wantedJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wantedJSON(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array of " + strings.TrimPrefix(strings.TrimPrefix(wantedJSON(t.Elem()), "an "), "a ") + "s"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a number"
}

// readSettings reads a file of settings.
func readSettings(file string, to any) error {
	text, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	return decodeSettings(text, to)
}
