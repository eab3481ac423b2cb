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
	"unicode/utf8"
)

// badRequest is an error whose text is the client's fault and the client's to
// read.
type badRequest string

func (e badRequest) Error() string { return string(e) }

var errTooLarge = errors.New("request body is too large")

// decode reads one JSON document of at most limit bytes into v, strictly: what
// two readers could understand in two ways is refused.
func decode(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	body, err := readBody(w, r, limit)
	if err != nil {
		return err
	}
	return parse(body, v)
}

// decodeNames reads a list of no more names than most.
func decodeNames(w http.ResponseWriter, r *http.Request, most int) ([]string, error) {
	var body struct {
		Names []string `json:"names"`
	}
	if err := decode(w, r, maxNamesBody, &body); err != nil {
		return nil, err
	}
	if len(body.Names) > most {
		return nil, badRequest(fmt.Sprintf("%d names, at most %d are allowed", len(body.Names), most))
	}
	return body.Names, nil
}

// errUnexpected is all that is said of a body that cannot be read.
const errUnexpected = badRequest("request body is not the JSON expected")

// readBody reads a body that may be JSON.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if h := r.Header.Get("Content-Type"); h != "" && h != "application/json" {
		if kind, _, err := mime.ParseMediaType(h); err != nil || kind != "application/json" {
			return nil, badRequest("content type must be application/json")
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, fmt.Errorf("%w: at most %d bytes are allowed", errTooLarge, large.Limit)
	}
	if err != nil {
		return nil, errUnexpected
	}
	return body, nil
}

// parse reads the one JSON document in body into v.
func parse(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(v) != nil {
		return errUnexpected
	}
	end := d.InputOffset()
	switch _, err := d.Token(); {
	case err == nil:
		return badRequest("request body holds more than one JSON document")
	case !errors.Is(err, io.EOF):
		return errUnexpected
	}
	if repeats(body[:end]) {
		return badRequest("request body names a field twice")
	}
	return nil
}

// plainName returns the name of a registration that has nothing else, spelt the
// one way that nearly all are. Everything else is for parse.
func plainName(body []byte) (name string, ok bool) {
	const before, after = `{"name":"`, `"}`
	if len(body) < len(before)+len(after) || string(body[:len(before)]) != before || string(body[len(body)-len(after):]) != after {
		return "", false
	}
	body = body[len(before) : len(body)-len(after)]
	for _, c := range body {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return "", false
		}
	}
	return string(body), true
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
