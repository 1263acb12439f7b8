package codec

import (
	"mime"
	"strings"
)

const (
	mediaJSON    = "application/json"
	mediaMsgpack = "application/msgpack"
	mediaEvents  = "application/cloudevents"
)

// parseMedia maps the media type of a body to a format, whatever its
// parameters. None at all is JSON.
func parseMedia(contentType string) (Format, error) {
	switch contentType {
	case mediaJSON, "":
		return FormatJSON, nil
	case mediaMsgpack:
		return FormatMsgpack, nil
	}
	media, err := mediaType("datacontenttype", contentType)
	if err != nil {
		return 0, err
	}
	switch media {
	case mediaJSON, "text/json":
		return FormatJSON, nil
	case mediaMsgpack, "application/vnd.msgpack", "application/x-msgpack":
		return FormatMsgpack, nil
	}
	return 0, newEnvelopeError("datacontenttype", mediaJSON+" or "+mediaMsgpack, contentType)
}

// isStructured reads the content type of a message without ce- headers. The
// Go SDK sends structured events with no header at all; anything else must say
// what it is.
func isStructured(contentType string) (bool, error) {
	if contentType == "" {
		return true, nil
	}
	if len(contentType) < len(mediaEvents) || !strings.EqualFold(contentType[:len(mediaEvents)], mediaEvents) {
		return false, nil
	}
	media, err := mediaType("content-type", contentType)
	if err != nil {
		return false, err
	}
	if media != mediaEvents && media != mediaEvents+"+json" {
		return false, newEnvelopeError("content-type", mediaEvents+"+json, one event", contentType)
	}
	return true, nil
}

// mediaType is the media type in small letters, without its parameters.
func mediaType(attribute, contentType string) (string, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", newEnvelopeError(attribute, "a media type", contentType)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return "", newEnvelopeError(attribute, "charset utf-8", contentType)
	}
	return media, nil
}
