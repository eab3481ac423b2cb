package main

import (
	"errors"
	"fmt"
	"regexp/syntax"

	"github.com/prometheus/alertmanager/matcher/parse"
	"github.com/prometheus/alertmanager/pkg/labels"
)

// parseMatchers reads matchers as Alertmanager does.
func parseMatchers(texts []string) (labels.Matchers, error) {
	var all labels.Matchers
	for i, text := range texts {
		m, err := parseMatcher(text)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// parseMatcher reads one matcher, or says in plain words what is wrong with it.
func parseMatcher(text string) (*labels.Matcher, error) {
	all, err := parse.Matchers(text)
	pattern, regular := errors.AsType[*syntax.Error](err)
	switch {
	case regular:
		return nil, fmt.Errorf("the regular expression cannot be read: %s", slipIn(pattern))
	case err != nil:
		return nil, errors.New("is no matcher")
	case len(all) != 1:
		return nil, fmt.Errorf("holds %d matchers", len(all))
	}
	return all[0], nil
}

// slipIn says what is wrong with a regular expression.
func slipIn(e *syntax.Error) string {
	switch e.Code {
	case syntax.ErrMissingParen:
		return `a "(" has no ")", or a "\" stands at the end`
	case syntax.ErrUnexpectedParen:
		return `a ")" has no "("`
	case syntax.ErrMissingBracket:
		return `a "[" has no "]"`
	case syntax.ErrInvalidCharClass, syntax.ErrInvalidCharRange:
		return fmt.Sprintf("%q is no range of characters", e.Expr)
	case syntax.ErrInvalidEscape, syntax.ErrTrailingBackslash:
		return fmt.Sprintf(`%q means nothing; a plain backslash is written "\\\\"`, e.Expr)
	case syntax.ErrMissingRepeatArgument:
		return fmt.Sprintf("nothing stands before %q that it could repeat", e.Expr)
	case syntax.ErrInvalidRepeatOp:
		return fmt.Sprintf("%q repeats what is repeated already", e.Expr)
	case syntax.ErrInvalidRepeatSize:
		return fmt.Sprintf("%q repeats too often, or backwards", e.Expr)
	case syntax.ErrInvalidPerlOp, syntax.ErrInvalidNamedCapture:
		return fmt.Sprintf("%q is not known; there is no looking ahead or behind", e.Expr)
	default:
		return "it is too long, too deep or not text"
	}
}
