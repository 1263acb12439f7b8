package jsclient

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// ErrConflict reports a compare-and-set that was refused: the last message of the subject is not the expected one.
var ErrConflict = errors.New("last sequence of the subject differs from the expected one")

// Error codes of the server.
const (
	codeAccountLimit     jetstream.ErrorCode = 10002
	codeInsufficient     jetstream.ErrorCode = 10023
	codeNoMemory         jetstream.ErrorCode = 10028
	codeSequenceNotFound jetstream.ErrorCode = 10043
	codeNoStorage        jetstream.ErrorCode = 10047
	codeTooLarge         jetstream.ErrorCode = 10054 // more than the limit of the stream
	codePurgeFailed      jetstream.ErrorCode = 10051
	codeDeleteFailed     jetstream.ErrorCode = 10057
	codeWrongStream      jetstream.ErrorCode = 10060 // the expected stream is another one
	codeWrongLast        jetstream.ErrorCode = 10071 // the expected last sequence is another one
	codeStoreFailed      jetstream.ErrorCode = 10077
	codeHeaderTooLarge   jetstream.ErrorCode = 10097
	codeSealed           jetstream.ErrorCode = 10109
	codeDuplicateBusy    jetstream.ErrorCode = 10158 // a message with this id is being stored
	codeSubjectBusy      jetstream.ErrorCode = 10164 // a message of this subject is being stored
	codeTooMany          jetstream.ErrorCode = 10167 // too many messages in flight
	codeNoBatches        jetstream.ErrorCode = 10174 // the stream stores no batches
	codeIncompleteBatch  jetstream.ErrorCode = 10176
	codeBatchHeader      jetstream.ErrorCode = 10177 // a header that a batch must not have
	codeBatchTooLarge    jetstream.ErrorCode = 10199
	codeTooManyBatches   jetstream.ErrorCode = 10210
)

// Status codes of the server.
const (
	statusRequestTimeout  = 408
	statusTooManyRequests = 429
	statusInternalError   = 500
)

// PublishResult classifies the result of one attempt to publish.
type PublishResult int

// The results.
const (
	Stored    PublishResult = iota
	Unknown                 // may be stored: send the same message again, its expected sequence or its id prevents a second one
	NotStored               // not stored, a retry is worthwhile
	Busy                    // not stored, a retry after some milliseconds is worthwhile
	Conflict                // the last message of the subject is not the expected one: read it
	Refused                 // not stored, and never will be
	Closed                  // not stored, and no other message will be
)

// ResultOf returns the result that the error of one attempt to publish means.
func ResultOf(err error) PublishResult {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return resultOfCode(api.ErrorCode)
	}
	switch {
	case err == nil:
		return Stored
	case errors.Is(err, ErrConflict):
		return Conflict
	case errors.Is(err, ErrNotConnected), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return NotStored
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrPermissionViolation):
		return Closed
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, chunk.ErrTooLarge), errors.Is(err, chunk.ErrInvalid):
		return Refused
	}
	return Unknown
}

func resultOfCode(code jetstream.ErrorCode) PublishResult {
	switch code {
	case codeWrongLast:
		return Conflict
	case codeSubjectBusy, codeDuplicateBusy:
		return Busy
	case codeInsufficient, codeNoMemory, codeNoStorage, codeAccountLimit, codeStoreFailed, codeTooMany:
		return NotStored
	case codeTooLarge, codeHeaderTooLarge, codeNoBatches, codeIncompleteBatch, codeBatchHeader, codeBatchTooLarge, codeTooManyBatches:
		return Refused
	case codeSealed, codeWrongStream:
		return Closed
	}
	return Unknown // 10008, 10163 and codes of later servers
}

// Final reports whether a repeated request would return the same error: the message is not found, the connection is closed, or the server has refused
// the request with a status of 4xx other than 408 and 429.
func Final(err error) bool {
	switch {
	case errors.Is(err, ErrConflict),
		errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrPermissionViolation),
		errors.Is(err, nats.ErrInvalidConnection):
		return true
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code > 0 && api.Code < statusInternalError && api.Code != statusRequestTimeout && api.Code != statusTooManyRequests
}

// IsTooLarge reports whether the server, or the client on its behalf, refused a message because of its size.
func IsTooLarge(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, nats.ErrMaxPayload) || ok && (api.ErrorCode == codeTooLarge || api.ErrorCode == codeHeaderTooLarge)
}
