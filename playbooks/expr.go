package playbooks

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/regpath/diagnose/playbooks/spelling"
	"github.com/regpath/diagnose/probes"
)

// Limits on a condition. Without comprehensions its cost is bounded by its
// size; the limits keep a file from asking for the absurd.
const (
	maxConditionBytes = 2000
	maxConditionNodes = 300
)

// vocabulary is what the conditions and summaries of one playbook may name.
type vocabulary struct {
	env   *cel.Env
	facts map[string]probes.FactDoc // by full name
	names []string                  // the keys of facts, in playbook order
	// tables holds the full names of the tables: "shards/failing".
	tables []string
	steps  []string
	blind  map[string]bool // steps whose probe is not known
}

func newVocabulary(steps []*Step) (*vocabulary, error) {
	v := &vocabulary{facts: map[string]probes.FactDoc{}, blind: map[string]bool{}}
	options := []cel.EnvOption{
		cel.ClearMacros(),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxConditionBytes),
		cel.ParserRecursionLimit(50),
	}
	for _, s := range steps {
		v.steps = append(v.steps, s.ID)
		v.blind[s.ID] = s.probe == nil && len(s.Facts) == 0
		for _, table := range s.tables {
			v.tables = append(v.tables, s.ID+"/"+table)
		}
		for _, f := range s.Facts {
			name := s.ID + "." + f.Name
			if _, dup := v.facts[name]; dup {
				continue
			}
			v.facts[name] = f
			v.names = append(v.names, name)
			options = append(options, cel.Variable(name, cel.DoubleType),
				cel.Variable(knownPrefix+name, cel.BoolType), cel.Variable(measuredPrefix+name, cel.BoolType))
		}
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("environment of the conditions: %w", err)
	}
	v.env = env
	return v, nil
}

// slip is a fault within a text; line counts from 1, column from 0.
type slip struct {
	line, column                  int
	word                          string // the word at fault, if it is one
	problem, expected, suggestion string
	// echo says that the slip only follows from another fault: the step's
	// probe is not known, so neither are its facts.
	echo bool
}

// compile checks and compiles a condition. scope limits it to the facts of one
// step; empty means any.
func (v *vocabulary) compile(text, scope string) (*Condition, []slip) {
	if strings.TrimSpace(text) == "" {
		return nil, []slip{{line: 1, problem: "empty condition", expected: "a comparison such as bloom.fill_ratio > 0.5"}}
	}
	parsed, issues := v.env.Parse(text)
	if issues.Err() != nil {
		return nil, slipsOf(issues)
	}
	tree := parsed.NativeRep()
	numbersAsDoubles(tree)
	facts, slips := v.references(tree, scope)
	asked, wrong := questionsAsVariables(tree)
	slips = append(slips, wrong...)
	slips = append(slips, divisions(tree)...)
	if size := countNodes(tree); size > maxConditionNodes {
		slips = append(slips, slip{line: 1, problem: "condition is too long", expected: fmt.Sprintf("at most %d terms", maxConditionNodes)})
	}
	if len(slips) > 0 {
		return nil, slips
	}
	checked, issues := v.env.Check(parsed)
	if issues.Err() != nil {
		return nil, slipsOf(issues)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) {
		return nil, []slip{{line: 1, problem: fmt.Sprintf("condition is a %s, not true or false", t), expected: "a comparison such as bloom.fill_ratio > 0.5"}}
	}
	program, err := v.env.Program(checked, cel.EvalOptions(cel.OptPartialEval, cel.OptOptimize))
	if err != nil {
		return nil, []slip{{line: 1, problem: err.Error()}}
	}
	line := strings.Join(strings.Fields(text), " ")
	c := &Condition{Text: line, Facts: facts, program: program, parts: v.split(line), asks: asked[knownPrefix], measures: asked[measuredPrefix]}
	if c.tree, err = v.branches(checked.NativeRep()); err != nil {
		return nil, []slip{{line: 1, problem: err.Error()}}
	}
	return c, nil
}

// slipsOf turns CEL's own messages into slips, without the parser's list of
// all tokens that would have been legal.
func slipsOf(issues *cel.Issues) []slip {
	var slips []slip
	for _, e := range issues.Errors() {
		message, _, _ := strings.Cut(e.Message, " expecting {")
		message = strings.TrimPrefix(message, "Syntax error: ")
		slips = append(slips, slip{line: max(1, e.Location.Line()), column: max(0, e.Location.Column()), problem: "condition does not compile: " + message})
	}
	return slips
}

// numbersAsDoubles turns whole numbers into doubles, as every fact is one and
// CEL does not mix them in == and arithmetic.
func numbersAsDoubles(tree *ast.AST) {
	factory := ast.NewExprFactory()
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		switch n := e.AsLiteral().(type) {
		case types.Int:
			e.SetKindCase(factory.NewLiteral(e.ID(), types.Double(n)))
		case types.Uint:
			e.SetKindCase(factory.NewLiteral(e.ID(), types.Double(n)))
		}
	}))
}

// The prefixes of the variables that say how a fact is known: known() is open
// where it was to be had and was not read, measured() is always decided.
const (
	knownPrefix    = "known."
	measuredPrefix = "measured."
)

// questionsAsVariables turns known(step.fact) and measured(step.fact) into
// variables, as a function would never be called with a fact that is not known. It
// returns the prefixes of those that are asked.
func questionsAsVariables(tree *ast.AST) (asked map[string]bool, slips []slip) {
	factory := ast.NewExprFactory()
	asked = map[string]bool{}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		prefix := call.FunctionName() + "."
		if prefix != knownPrefix && prefix != measuredPrefix {
			return
		}
		if args := call.Args(); len(args) == 1 && !call.IsMemberFunction() {
			if name, _, ok := dotted(args[0]); ok {
				e.SetKindCase(factory.NewIdent(e.ID(), prefix+name))
				asked[prefix] = true
				return
			}
		}
		at := tree.SourceInfo().GetStartLocation(e.ID())
		slips = append(slips, slip{
			line: max(1, at.Line()), column: max(0, at.Column()),
			problem: call.FunctionName() + "() asks about one fact", expected: call.FunctionName() + "(<step>.<fact>)",
		})
	}))
	return asked, slips
}

// references collects the facts that a condition names, and the names that
// are none.
func (v *vocabulary) references(tree *ast.AST, scope string) (facts []string, slips []slip) {
	inner := map[int64]bool{} // operands of a selection already looked at
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if inner[e.ID()] {
			if e.Kind() == ast.SelectKind {
				inner[e.AsSelect().Operand().ID()] = true
			}
			return
		}
		name, first, ok := dotted(e)
		if !ok {
			return
		}
		if e.Kind() == ast.SelectKind {
			inner[e.AsSelect().Operand().ID()] = true
		}
		if s, bad := v.lookUp(name, scope); bad {
			at := tree.SourceInfo().GetStartLocation(first)
			s.line, s.column = max(1, at.Line()), max(0, at.Column())
			slips = append(slips, s)
			return
		}
		if !slices.Contains(facts, name) {
			facts = append(facts, name)
		}
	}))
	return facts, slips
}

// dotted returns the name that a chain of selections spells, and the id of its
// first part.
func dotted(e ast.Expr) (name string, first int64, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), e.ID(), true
	case ast.SelectKind:
		s := e.AsSelect()
		head, first, ok := dotted(s.Operand())
		return head + "." + s.FieldName(), first, ok
	default:
		return "", 0, false
	}
}

// lookUp says what is wrong with a name, if anything.
func (v *vocabulary) lookUp(name, scope string) (slip, bool) {
	if _, ok := v.facts[name]; !ok {
		step, _, qualified := strings.Cut(name, ".")
		s := slip{word: name, problem: fmt.Sprintf("unknown fact %q", name), suggestion: spelling.Nearest(name, v.names), echo: v.blind[step]}
		switch {
		case !qualified || !slices.Contains(v.steps, step):
			s.expected = "<step>.<fact>, where the steps are " + strings.Join(v.steps, ", ")
		case s.suggestion == "":
			s.expected = "a fact that the step's probe documents"
		}
		return s, true
	}
	if scope != "" && !strings.HasPrefix(name, scope+".") {
		return slip{
			word:     name,
			problem:  fmt.Sprintf("fact %q belongs to another step", name),
			expected: fmt.Sprintf("facts of the step %q; only causes look across steps", scope),
		}, true
	}
	return slip{}, false
}

// divisions finds divisions by anything but a number: 0/0 is not a number, and
// comparing with it is false both ways.
func divisions(tree *ast.AST) (slips []slip) {
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Divide {
			return
		}
		if d := e.AsCall().Args()[1]; d.Kind() != ast.LiteralKind || d.AsLiteral() == types.Double(0) {
			at := tree.SourceInfo().GetStartLocation(e.ID())
			slips = append(slips, slip{
				line: max(1, at.Line()), column: max(0, at.Column()),
				problem: "division by something that can be zero", expected: "a product, such as a > 0.5 * b",
			})
		}
	}))
	return slips
}

func countNodes(tree *ast.AST) (n int) {
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(ast.Expr) { n++ }))
	return n
}
