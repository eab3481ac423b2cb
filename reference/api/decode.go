package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// badRequest is an error whose text is the client's fault and the client's to
// read.
type badRequest string

func (e badRequest) Error() string { return string(e) }

var errTooLarge = errors.New("request body is too large")

// decode reads one JSON document of at most limit bytes into v, strictly: what
// two readers could understand in two ways is refused.
func decode(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	if h := r.Header.Get("Content-Type"); h != "" {
		if kind, _, err := mime.ParseMediaType(h); err != nil || kind != "application/json" {
			return badRequest("content type must be application/json")
		}
	}
	const unexpected = badRequest("request body is not the JSON expected")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return fmt.Errorf("%w: at most %d bytes are allowed", errTooLarge, large.Limit)
	}
	if err != nil {
		return unexpected
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(v) != nil {
		return unexpected
	}
	end := d.InputOffset()
	switch _, err := d.Token(); {
	case err == nil:
		return badRequest("request body holds more than one JSON document")
	case !errors.Is(err, io.EOF):
		return unexpected
	}
	if repeats(body[:end]) {
		return badRequest("request body names a field twice")
	}
	return nil
}

// repeats says whether an object, which is valid JSON, has two fields that
// encoding/json takes for one: it ignores case, and the last one wins.
func repeats(object []byte) bool {
	var names []string
	depth, key := 0, false // a field's name comes next
	for i := 0; i < len(object); i++ {
		switch object[i] {
		case '{', '[':
			depth++
			key = depth == 1 && object[i] == '{'
		case '}', ']':
			depth--
		case ',':
			key = depth == 1
		case '"':
			end := i + 1
			for ; object[end] != '"'; end++ {
				if object[end] == '\\' {
					end++
				}
			}
			if key {
				var name string
				if json.Unmarshal(object[i:end+1], &name) != nil || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
					return true
				}
				names = append(names, name)
			}
			i, key = end, false
		}
	}
	return false
}
