package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix = "whsec_"

	// The sizes of a key that Standard Webhooks allows.
	minKey = 24
	maxKey = 64
)

// Secrets are the keys that sign webhooks: one, or during a rotation the old one and the new one.
type Secrets [][]byte

// ReadSecrets reads secrets, "whsec_" and a key in base64, that are separated by commas or white space. A text without the prefix is the path of a file that has
// them. The errors have no part of a secret.
func ReadSecrets(text string) (Secrets, error) {
	if text != "" && !strings.HasPrefix(strings.TrimSpace(text), secretPrefix) {
		data, err := os.ReadFile(text) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, errors.New("secret: want " + secretPrefix + " and a key, or the path of a file that can be read")
		}
		text = string(data)
	}
	var keys Secrets
	for _, secret := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
		encoded, ok := strings.CutPrefix(secret, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, fmt.Errorf("secret %d: want %s and a key of %d to %d bytes in base64", len(keys)+1, secretPrefix, minKey, maxKey)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > 2 {
		return nil, fmt.Errorf("%d secrets, want one, or two during a rotation", len(keys))
	}
	return keys, nil
}

// sign returns the values of webhook-timestamp and webhook-signature.
func (s Secrets) sign(id string, at time.Time, body []byte) (timestamp, signature string) {
	timestamp = strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(s))
	for i, key := range s {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(id + "." + timestamp + ".")) // a hash returns no error
		_, _ = mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return timestamp, strings.Join(signatures, " ")
}
