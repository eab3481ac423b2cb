package api_test

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/regpath/diagnose/reference/local"
)

// openAPI is the part of the description that the tests hold answers against.
type openAPI struct {
	OpenAPI string
	Paths   map[string]map[string]yaml.Node
}

// operation is what one method of one path does.
type operation struct {
	Summary   string
	Responses map[string]yaml.Node
}

var readOpenAPI = sync.OnceValues(func() (doc openAPI, err error) {
	text, err := os.ReadFile("openapi.yaml")
	if err != nil {
		return doc, err
	}
	return doc, yaml.NewDecoder(bytes.NewReader(text)).Decode(&doc)
})

// described fails the test if the description knows the operation, but not that it answers so.
func described(t *testing.T, method, address string, code int) {
	t.Helper()
	doc, err := readOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		node, ok := methods[strings.ToLower(method)]
		if !ok || !regexp.MustCompile("^"+regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "[^/]+")+"$").MatchString(u.Path) {
			continue
		}
		var o operation
		if err := node.Decode(&o); err != nil {
			t.Fatal(err)
		}
		if _, ok := o.Responses[strconv.Itoa(code)]; !ok || o.Summary == "" {
			t.Errorf("openapi.yaml: %s %s does not tell of the status %d", method, path, code)
		}
	}
}

// TestOpenAPI holds the description against the routes in the source, in both directions, and its references against
// what they refer to.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	doc, err := readOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(sources, "../fault/fault.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"(GET|POST|DELETE) (/[^"]*[^/"]|/debug/fault/)"`).FindAllSubmatch(text, -1) {
			routes[strings.ToLower(string(m[1]))+" "+strings.TrimSuffix(string(m[2]), "{$}")] = true
		}
		for _, m := range regexp.MustCompile(`\tget\("(\w+)"`).FindAllSubmatch(text, -1) {
			routes["get /debug/diagnose/"+string(m[1])] = true
		}
	}
	if len(routes) < 18 {
		t.Errorf("only %d routes found in the source: %v", len(routes), routes)
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			if method == "parameters" {
				continue
			}
			if key := method + " " + path; !routes[key] {
				t.Errorf("openapi.yaml describes %s, which is no route", key)
			} else {
				delete(routes, key)
			}
		}
	}
	for key := range routes {
		t.Errorf("openapi.yaml does not describe %s", key)
	}
	p := start(t, local.Options{})
	code, served := send(t, http.MethodGet, p.URL+"/openapi.yaml", "", "")
	want, err := os.ReadFile("openapi.yaml")
	if err != nil || code != http.StatusOK || !bytes.Equal(served, want) {
		t.Errorf("/openapi.yaml = %d, %d bytes, %v, want the %d of the file", code, len(served), err, len(want))
	}
	var tree map[string]any
	if err := yaml.NewDecoder(bytes.NewReader(want)).Decode(&tree); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\$ref: "#/([^"]*)"`).FindAllSubmatch(want, -1) {
		var at any = tree
		for step := range strings.SplitSeq(string(m[1]), "/") {
			next, _ := at.(map[string]any)
			at = next[step]
		}
		if at == nil {
			t.Errorf("openapi.yaml refers to %s, which is not there", m[1])
		}
	}
}
