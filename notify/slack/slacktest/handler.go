package slacktest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds what is read of a request.
const maxBody = 4 << 20

// reply is the outcome of a call: fields of a success, or an error.
type reply struct {
	fields map[string]any
	err    string
	// detail holds Slack's [ERROR] messages.
	detail []string
	status int // 200 when zero
	header http.Header
}

func failure(code string, detail ...string) reply { return reply{err: code, detail: detail} }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method, isAPI := strings.CutPrefix(r.URL.Path, "/api/")
	serve := s.serveAPI
	if !isAPI {
		method, serve = "webhook", s.serveWebhook
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "cannot read body", http.StatusRequestEntityTooLarge)
		return
	}
	s.mu.Lock()
	fault, scripted := s.next(method)
	s.mu.Unlock()
	if !scripted {
		serve(w, r, method, body)
		return
	}
	if fault.Until != nil {
		late := held{header: make(http.Header), status: http.StatusOK}
		serve(&late, r, method, body)
		select {
		case <-fault.Until:
		case <-r.Context().Done():
		}
		late.send(w)
		return
	}
	if fault.Accept {
		serve(&held{header: make(http.Header)}, r, method, body)
	} else {
		s.record(method, "fault")
	}
	fault.play(w, r)
}

// held is a ResponseWriter for an answer that comes late, or gets lost.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *held) Header() http.Header         { return h.header }
func (h *held) Write(b []byte) (int, error) { return h.body.Write(b) }
func (h *held) WriteHeader(status int)      { h.status = status }

// send gives the answer after all.
func (h *held) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), h.header)
	w.WriteHeader(h.status)
	_, _ = w.Write(h.body.Bytes())
}

// record notes a call.
func (s *Server) record(method, err string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, Call{Method: method, At: s.now(), Error: err})
	s.signal()
}

// serveAPI answers a call of the Web API. Most errors are 200 with ok false.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request, method string, body []byte) {
	rep := s.api(r, method, body)
	s.record(method, rep.err)
	answer := map[string]any{"ok": rep.err == ""}
	maps.Copy(answer, rep.fields)
	if rep.err != "" {
		answer["error"] = rep.err
	}
	if len(rep.detail) > 0 {
		answer["errors"] = rep.detail
		answer["response_metadata"] = map[string]any{"messages": rep.detail}
	}
	maps.Copy(w.Header(), rep.header)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if rep.status != 0 {
		w.WriteHeader(rep.status)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *Server) api(r *http.Request, method string, body []byte) reply {
	handle := map[string]func(url.Values) reply{
		"auth.test":             s.authTest,
		"chat.postMessage":      s.postMessage,
		"chat.update":           s.update,
		"chat.postEphemeral":    s.postEphemeral,
		"conversations.history": s.history,
		"conversations.replies": s.replies,
	}[method]
	if handle == nil {
		return failure("unknown_method")
	}
	form, code := arguments(r, body)
	if code != "" {
		return failure(code)
	}
	token := strings.TrimSpace(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer"))
	if token == "" {
		token = form.Get("token")
	}
	switch token {
	case "":
		return failure("not_authed")
	case Token:
	default:
		return failure("invalid_auth")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return handle(form)
}

// arguments reads a form or a JSON object; nested JSON becomes a string, as it
// is in a form.
func arguments(r *http.Request, body []byte) (url.Values, string) {
	if r.Method == http.MethodGet {
		return r.URL.Query(), ""
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, "invalid_form_data"
		}
		return form, ""
	case "application/json":
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil {
			return nil, "invalid_json"
		}
		form := make(url.Values)
		for k, raw := range object {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				text = string(raw)
			}
			form.Set(k, text)
		}
		return form, ""
	}
	return nil, "invalid_post_type"
}

// serveWebhook answers an incoming webhook: plain text, and statuses that mean
// something.
func (s *Server) serveWebhook(w http.ResponseWriter, r *http.Request, method string, body []byte) {
	status, text := s.webhook(r, body)
	code := text
	if status == http.StatusOK {
		code = ""
	}
	s.record(method, code)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

func (s *Server) webhook(r *http.Request, body []byte) (int, string) {
	if r.URL.Path != webhookPath {
		return http.StatusNotFound, "no_service"
	}
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, "method_not_allowed"
	}
	var in struct {
		Text   string          `json:"text"`
		Blocks json.RawMessage `json:"blocks"`
		Thread string          `json:"thread_ts"`
		Markup *bool           `json:"mrkdwn"`
	}
	if json.Unmarshal(body, &in) != nil {
		return http.StatusBadRequest, "invalid_payload"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[ChannelID]
	if c.archived {
		return http.StatusGone, "channel_is_archived"
	}
	blocks, rep := s.content(in.Text, in.Blocks)
	if rep.err != "" {
		return http.StatusBadRequest, strings.Replace(rep.err, "invalid_blocks_format", "invalid_payload", 1)
	}
	if rep := s.pace(c); rep.err != "" {
		return http.StatusTooManyRequests, rep.err
	}
	s.add(&Message{Channel: c.id, ThreadTS: in.Thread, Text: in.Text, Blocks: blocks, Webhook: true, Markup: in.Markup == nil || *in.Markup})
	return http.StatusOK, "ok"
}

// pace refuses a message that comes too soon: each channel has burst places, one
// of which is free again after every interval. s.mu is held.
func (s *Server) pace(c *channel) reply {
	now := s.now()
	if s.interval == 0 {
		s.lastPost[c.id] = now
		return reply{}
	}
	// free is when all places are free again.
	free := s.free[c.id]
	if free.Before(now) {
		free = now
	}
	if wait := free.Add(s.interval).Sub(now.Add(time.Duration(s.burst) * s.interval)); wait > 0 {
		rep := failure("ratelimited")
		seconds := (wait + time.Second - 1) / time.Second
		rep.status, rep.header = http.StatusTooManyRequests, http.Header{"Retry-After": {strconv.Itoa(int(seconds))}}
		return rep
	}
	s.free[c.id], s.lastPost[c.id] = free.Add(s.interval), now
	return reply{}
}

// add keeps a new message. s.mu is held.
func (s *Server) add(m *Message) {
	m.TS = s.stamp()
	s.messages = append(s.messages, m)
	s.signal()
}
