package playbooks

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// branch is a part of a condition that has alternatives. Of these only the ones
// that hold speak for a cause.
type branch struct {
	either bool // one of the kids is enough
	kids   []*branch
	// facts and program are those of a part without parts of its own.
	facts   []string
	program cel.Program
}

// branches takes a condition apart at its && and ||; nil if it has no ||.
func (v *vocabulary) branches(tree *ast.AST) (*branch, error) {
	alternatives := false
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		alternatives = alternatives || e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalOr
	}))
	if !alternatives {
		return nil, nil
	}
	return v.branch(tree, tree.Expr())
}

func (v *vocabulary) branch(tree *ast.AST, e ast.Expr) (*branch, error) {
	if e.Kind() == ast.CallKind {
		switch call := e.AsCall(); call.FunctionName() {
		case operators.LogicalOr, operators.LogicalAnd:
			b := &branch{either: call.FunctionName() == operators.LogicalOr}
			for _, arg := range call.Args() {
				kid, err := v.branch(tree, arg)
				if err != nil {
					return nil, err
				}
				b.kids = append(b.kids, kid)
			}
			return b, nil
		}
	}
	part := ast.NewCheckedAST(ast.NewAST(e, tree.SourceInfo()), tree.TypeMap(), tree.ReferenceMap())
	program, err := v.env.PlanProgram(part, cel.EvalOptions(cel.OptPartialEval))
	if err != nil {
		return nil, fmt.Errorf("part of the condition: %w", err)
	}
	b := &branch{program: program}
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if name, _, ok := dotted(e); ok {
			if _, fact := v.facts[name]; fact {
				b.facts = appendNew(b.facts, name)
			}
		}
	}))
	return b, nil
}

// holds says whether the part holds for certain.
func (b *branch) holds(s *sights) bool {
	holds := func(kid *branch) bool { return kid.holds(s) }
	switch {
	case b.program != nil:
		out, _, err := b.program.Eval(s.activation)
		return err == nil && out == types.True
	case b.either:
		return slices.ContainsFunc(b.kids, holds)
	}
	return !slices.ContainsFunc(b.kids, func(kid *branch) bool { return !kid.holds(s) })
}

// telling returns the facts of the parts that hold.
func (b *branch) telling(s *sights) (facts []string) {
	if b.program != nil {
		return b.facts
	}
	for _, kid := range b.kids {
		if b.either && !kid.holds(s) {
			continue
		}
		for _, f := range kid.telling(s) {
			facts = appendNew(facts, f)
		}
	}
	return facts
}

// telling returns the facts for which a condition holds: all of them, but for
// those of alternatives that do not.
func (c *Condition) telling(s *sights) []string {
	if c.tree == nil {
		return c.Facts
	}
	return c.tree.telling(s)
}
