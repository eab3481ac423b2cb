package probetest

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// answers are what may come back instead of a document, with a word that the
// reason must hold.
func answers(doc string) map[string]struct {
	serve http.HandlerFunc
	want  string
} {
	text := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, body)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, doc)
		}
	}
	return map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"truncated":    {text("application/json", doc[:len(doc)/2]), "cut off"},
		"cut body":     {cutBody(doc), "cut off"},
		"empty":        {text("application/json", ""), "empty"},
		"no JSON":      {text("application/json", "hello"), "JSON"},
		"array":        {text("application/json", "["+doc+"]"), "not a JSON object"},
		"null":         {text("application/json", "null"), "not a JSON object"},
		"trailing":     {text("application/json", doc+doc), "more after"},
		"HTML":         {text("text/html", "<html><body>It works</body></html>"), "HTML"},
		"login":        {text("text/html; charset=utf-8", `<form>Sign in <input type="password"></form>`), "login page"},
		"hidden HTML":  {text("application/json", "<!doctype html><p>"), "HTML"},
		"huge":         {text("application/json", `{"now":"`+strings.Repeat("x", 5<<20)+`"}`), "larger than"},
		"NaN":          {text("application/json", `{"now":NaN}`), "not valid JSON"},
		"error":        {status(500), "500"},
		"unavailable":  {status(503), "503"},
		"absent":       {status(404), "404"},
		"unauthorized": {status(401), "token"},
		"no content":   {status(204), "204"},
		"not here": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://sso.example.com/login?token=hunter2", http.StatusFound)
		}, "sso.example.com"},
		"abort":         {Abort, "closed"},
		"empty object":  {text("application/json", "{}"), ""},
		"deep":          {text("application/json", strings.Repeat(`{"a":`, 20000)+"1"+strings.Repeat("}", 20000)), "JSON"},
		"wrong numbers": {text("application/json", hostile(doc, func(int) string { return `"NaN"` })), ""},
		"overflow":      {text("application/json", hostile(doc, func(int) string { return "1e999" })), ""},
		"negative":      {text("application/json", hostile(doc, func(int) string { return "-5" })), ""},
		"nulls":         {text("application/json", hostile(doc, func(int) string { return "null" })), ""},
		"zeros":         {text("application/json", hostile(doc, func(int) string { return "0" })), ""},
		"large":         {text("application/json", hostile(doc, func(int) string { return "1.7e308" })), ""},
		"fractions":     {text("application/json", hostile(doc, func(int) string { return "0.3" })), ""},
	}
}

func cutBody(doc string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(doc)+10))
		_, _ = io.WriteString(w, doc)
	}
}

// number finds the numbers of a document, outside of strings.
var number = regexp.MustCompile(`([:\[,]\s*)(-?[0-9][0-9.eE+-]*)`)

// hostile replaces the numbers of a document; with gives the new text of the
// i-th, or an empty string to leave it.
func hostile(doc string, with func(i int) string) string {
	i := -1
	return number.ReplaceAllStringFunc(doc, func(s string) string {
		i++
		if to := with(i); to != "" {
			return number.ReplaceAllString(s, "${1}"+to)
		}
		return s
	})
}

// hang takes a request and does not answer until the client gives up. The body
// is read first: a server does not notice that the client is gone before.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}
