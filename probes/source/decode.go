package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/regpath/diagnose/probes"
)

// decode reads one JSON object into the struct behind into and names every
// number in it by its path, so that an unknown one says which it is: "pool.idle
// is left out". Numbers and times are lenient, structure and strings are not.
func decode(body []byte, into any) error {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return errors.New("the answer is empty, not a JSON document")
	}
	if trimmed[0] == '<' {
		return errors.New(htmlReason(trimmed))
	}
	if trimmed[0] != '{' {
		return errors.New("the answer is not a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(trimmed))
	if err := dec.Decode(into); err != nil {
		return jsonReason(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON document")
	}
	label(reflect.ValueOf(into).Elem(), "")
	return nil
}

// jsonReason says what is wrong with a document without quoting its values,
// which come from outside.
func jsonReason(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON document is cut off")
	case errors.As(err, &wrong):
		what, _, _ := strings.Cut(wrong.Value, " ")
		return fmt.Errorf("the JSON document has a %s for %s", what, wrong.Field)
	}
	return fmt.Errorf("the answer is not valid JSON: %w", err)
}

// htmlReason says what an HTML page in the place of a document looks like.
func htmlReason(body []byte) string {
	low := bytes.ToLower(body)
	for _, mark := range []string{`type="password"`, `type='password'`, "log in", "login", "sign in", "saml", "oauth"} {
		if bytes.Contains(low, []byte(mark)) {
			return "the answer is a login page in HTML, not JSON: something in front of the service asks for a sign-on"
		}
	}
	return "the answer is an HTML page, not JSON: the URL belongs to something else"
}

// label names the unknown numbers in v, recursively.
func label(v reflect.Value, path string) {
	switch v.Kind() { //nolint:exhaustive // the documents are made of these two
	case reflect.Struct:
		if n, ok := reflect.TypeAssert[*probes.Number](v.Addr()); ok {
			*n = n.Named(path)
			return
		}
		t := v.Type()
		for i := range t.NumField() {
			if tag := t.Field(i).Tag.Get("json"); tag != "" {
				label(v.Field(i), strings.TrimPrefix(path+"."+tag, "."))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			label(v.Index(i), path)
		}
	}
}
