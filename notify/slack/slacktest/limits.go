package slacktest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// The limits, in UTF-16 code units.
const (
	maxPostText   = 40000 // truncated beyond it, with a warning
	maxUpdateText = 4000
	maxBlocks     = 50
	// maxTotal is the largest sum of text in blocks that was seen to pass; the
	// real limit lies between it and 11,341.
	maxTotal    = 9597
	maxSection  = 3000
	maxFields   = 10
	maxField    = 2000
	maxHeader   = 150
	maxContext  = 10
	maxActions  = 25
	maxButton   = 75
	maxValue    = 2000
	maxURL      = 3000
	maxID       = 255
	maxAltText  = 2000
	maxMetadata = 8000
)

func units(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// truncate cuts text as chat.postMessage does.
func truncate(s string) (string, bool) {
	if units(s) <= maxPostText {
		return s, false
	}
	n := 0
	for i, r := range s {
		if n += max(utf16.RuneLen(r), 1); n > maxPostText {
			return s[:i], true
		}
	}
	return s, false
}

// content checks text and blocks, and returns the blocks to keep: nil for none.
func (s *Server) content(text string, raw json.RawMessage) (json.RawMessage, reply) {
	var blocks []map[string]any
	if len(raw) > 0 && string(raw) != "null" {
		if json.Unmarshal(raw, &blocks) != nil {
			return nil, failure("invalid_blocks_format")
		}
	}
	if len(blocks) == 0 && strings.TrimSpace(text) == "" {
		return nil, failure("no_text")
	}
	c := checker{ids: make(map[string]bool)}
	if len(blocks) > maxBlocks {
		c.fault("/blocks", "no more than %d items allowed", maxBlocks)
	}
	for i, b := range blocks {
		c.block(fmt.Sprintf("/blocks/%d", i), b)
	}
	if len(c.faults) > 0 {
		return nil, failure("invalid_blocks", c.faults...)
	}
	if c.total > maxTotal {
		return nil, failure("msg_blocks_too_long")
	}
	s.inspect("mrkdwn", text)
	for _, b := range blocks {
		walk(b, s.inspect)
	}
	if len(blocks) == 0 {
		return nil, reply{}
	}
	if strings.TrimSpace(text) == "" {
		s.violate("blocks without a text for notifications")
	}
	return raw, reply{}
}

// checker gathers what is wrong with blocks.
type checker struct {
	faults []string
	total  int
	ids    map[string]bool
}

func (c *checker) fault(at, format string, args ...any) {
	c.faults = append(c.faults, "[ERROR] "+fmt.Sprintf(format, args...)+" [json-pointer:"+at+"]")
}

func (c *checker) block(at string, b map[string]any) {
	if id, ok := b["block_id"].(string); ok {
		if units(id) > maxID || c.ids["block "+id] {
			c.fault(at+"/block_id", "must be unique and at most %d characters", maxID)
		}
		c.ids["block "+id] = true
	}
	switch kind, _ := b["type"].(string); kind {
	case "header":
		c.text(at+"/text", b["text"], maxHeader, "plain_text")
	case "section":
		c.section(at, b)
	case "context":
		elements, _ := b["elements"].([]any)
		c.count(at+"/elements", len(elements), maxContext)
		for i, e := range elements {
			c.element(fmt.Sprintf("%s/elements/%d", at, i), e)
		}
	case "actions":
		elements, _ := b["elements"].([]any)
		c.count(at+"/elements", len(elements), maxActions)
		for i, e := range elements {
			c.button(fmt.Sprintf("%s/elements/%d", at, i), e)
		}
	case "image":
		c.image(at, b)
	case "divider":
	default:
		c.fault(at+"/type", "unsupported type: %s", kind)
	}
}

func (c *checker) section(at string, b map[string]any) {
	fields, hasFields := b["fields"].([]any)
	if b["text"] == nil && !hasFields {
		c.fault(at, "missing required field: text")
	}
	if b["text"] != nil {
		c.text(at+"/text", b["text"], maxSection, "plain_text", "mrkdwn")
	}
	if hasFields {
		c.count(at+"/fields", len(fields), maxFields)
		for i, f := range fields {
			c.text(fmt.Sprintf("%s/fields/%d", at, i), f, maxField, "plain_text", "mrkdwn")
		}
	}
	if b["accessory"] != nil {
		c.button(at+"/accessory", b["accessory"])
	}
}

// element is an element of a context block: text or image.
func (c *checker) element(at string, v any) {
	if m, ok := v.(map[string]any); ok && m["type"] == "image" {
		c.image(at, m)
		return
	}
	c.text(at, v, maxSection, "plain_text", "mrkdwn")
}

func (c *checker) image(at string, m map[string]any) {
	c.length(at+"/image_url", m["image_url"], maxURL)
	c.length(at+"/alt_text", m["alt_text"], maxAltText)
}

func (c *checker) button(at string, v any) {
	b, _ := v.(map[string]any)
	if b["type"] != "button" {
		c.fault(at+"/type", "unsupported type: %v", b["type"])
		return
	}
	c.text(at+"/text", b["text"], maxButton, "plain_text")
	if id, ok := b["action_id"].(string); ok {
		if units(id) > maxID || c.ids["action "+id] {
			c.fault(at+"/action_id", "must be unique and at most %d characters", maxID)
		}
		c.ids["action "+id] = true
	}
	if b["url"] != nil {
		c.length(at+"/url", b["url"], maxURL)
	}
	if b["value"] != nil {
		c.length(at+"/value", b["value"], maxValue)
	}
}

// text checks a text object.
func (c *checker) text(at string, v any, limit int, kinds ...string) {
	m, ok := v.(map[string]any)
	if !ok {
		c.fault(at, "missing required field: text")
		return
	}
	kind, _ := m["type"].(string)
	if !slices.Contains(kinds, kind) {
		c.fault(at+"/type", "must be one of %s", strings.Join(kinds, ", "))
	}
	if _, ok := m["emoji"]; ok && kind == "mrkdwn" {
		c.fault(at+"/emoji", "additional property: emoji")
	}
	if _, ok := m["verbatim"]; ok && kind == "plain_text" {
		c.fault(at+"/verbatim", "additional property: verbatim")
	}
	c.length(at+"/text", m["text"], limit)
	s, _ := m["text"].(string)
	c.total += units(s)
}

// length checks a string that must have 1 to limit characters.
func (c *checker) length(at string, v any, limit int) {
	s, _ := v.(string)
	switch {
	case strings.TrimSpace(s) == "":
		c.fault(at, "must be more than 0 characters")
	case units(s) > limit:
		c.fault(at, "must be less than %d characters", limit+1)
	}
}

// count checks a list that must have 1 to limit items.
func (c *checker) count(at string, n, limit int) {
	if n < 1 || n > limit {
		c.fault(at, "must have between 1 and %d items", limit)
	}
}

var (
	angle   = regexp.MustCompile(`<([^<>]*)>?`)
	entity  = regexp.MustCompile(`&(amp|lt|gt);`)
	mention = regexp.MustCompile(`^[!@#]`)
)

// violate records harm to a reader. s.mu is held.
func (s *Server) violate(format string, args ...any) {
	s.violations = append(s.violations, fmt.Sprintf(format, args...))
}

// inspect records what in a text would act on a reader rather than be read.
func (s *Server) inspect(kind, text string) {
	for _, r := range text {
		if (unicode.IsControl(r) && r != '\n') || unicode.Is(unicode.Cf, r) {
			s.violate("control character %U in %s", r, kind)
			break
		}
	}
	rest := angle.ReplaceAllStringFunc(text, func(m string) string {
		inner := strings.Trim(m, "<>")
		target, _, _ := strings.Cut(inner, "|")
		u, err := url.Parse(target)
		switch {
		case kind == "plain_text":
			s.violate("unescaped < in plain_text: %.80q", m)
		case mention.MatchString(inner):
			s.violate("live mention: %.80q", m)
		case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", !strings.HasSuffix(m, ">"):
			s.violate("unescaped <, or not a link: %.80q", m)
		case strings.Count(inner, "|") > 1:
			s.violate("link with | inside: %.80q", m)
		}
		return ""
	})
	if strings.ContainsAny(entity.ReplaceAllString(rest, ""), "<>&") {
		s.violate("unescaped &, < or > in %s: %.80q", kind, rest)
	}
	if kind == "mrkdwn" && strings.Count(text, "```")%2 != 0 {
		s.violate("code block left open: %.80q", text)
	}
}
