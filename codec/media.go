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

// parseMedia returns the format of a media type with any parameters. Without a media type it is JSON.
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

// isStructured checks the content type of a message without ce- headers. The Go SDK sends structured events without any header; other writers must set the
// content type.
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

// mediaType returns the media type in lower case, without its parameters.
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
