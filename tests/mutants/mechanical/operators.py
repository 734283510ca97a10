"""The operators: each takes a node of the source and says what it could be instead."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Operator = Callable[[ast.AST], Iterator[ast.AST]]
"""From a node to its replacements; none if the operator does not apply to it."""

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}


def comparison(node: ast.AST) -> Iterator[ast.AST]:
    """``<`` becomes ``<=`` and ``>=``, ``==`` becomes ``!=``, ``is`` becomes ``is not``…"""
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            for other in _COMPARISONS[type(op)]:
                ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
                yield ast.Compare(node.left, ops, node.comparators)


def condition(node: ast.AST) -> Iterator[ast.AST]:
    """A condition is negated, where flipping its comparison or dropping its ``not`` is not that."""
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        if not isinstance(test, ast.Constant):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))


def connective(node: ast.AST) -> Iterator[ast.AST]:
    """``and`` becomes ``or``, and the other way round."""
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def unary(node: ast.AST) -> Iterator[ast.AST]:
    """``not x`` becomes ``x``, and so do ``-x`` and ``~x``."""
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield node.operand


def arithmetic(node: ast.AST) -> Iterator[ast.AST]:
    """``+`` becomes ``-``, ``<<`` becomes ``>>``, ``&`` becomes ``|``…"""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
        if not any(_is_text(part) or _is_type(part) for part in parts):
            yield _with(node, op=_ARITHMETIC[type(node.op)]())


def constant(node: ast.AST) -> Iterator[ast.AST]:
    """A number becomes one more and one less; ``True`` becomes ``False``."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            yield ast.Constant(not value)
        elif isinstance(value, int | float):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)


def dropped(node: ast.AST) -> Iterator[ast.AST]:
    """A statement that is there for its effect is left out."""
    match node:
        case ast.Expr(value=ast.Constant() | ast.Yield() | ast.YieldFrom()):
            return
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=targets) if any(_outlives(target) for target in targets):
            yield ast.Pass()
        case ast.AnnAssign(target=target, value=ast.expr()) if _outlives(target):
            yield ast.Pass()
        case _:
            return


def returned(node: ast.AST) -> Iterator[ast.AST]:
    """A value that is returned becomes ``None``."""
    if isinstance(node, ast.Return) and node.value is not None:
        value = node.value.value if isinstance(node.value, ast.Constant) else ...
        if not isinstance(value, bool) and value is not None:  # `constant` flips a truth
            yield ast.Return(ast.Constant(None))


def jump(node: ast.AST) -> Iterator[ast.AST]:
    """``break`` becomes ``continue``, and the other way round."""
    if isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Break()


OPERATORS: tuple[Operator, ...] = (
    comparison,
    condition,
    connective,
    unary,
    arithmetic,
    constant,
    dropped,
    returned,
    jump,
)


def _with(node: ast.AST, **changed: object) -> ast.AST:
    fields = {name: getattr(node, name) for name in node._fields if hasattr(node, name)}
    return type(node)(**fields | changed)


def _is_text(node: ast.AST) -> bool:
    """A text that is added to or divided by would only raise: every test notices that."""
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_type(node: ast.AST) -> bool:
    """Part of a union of types, as its name tells: ``None``, ``bytes``, ``Segment``."""
    match node:
        case ast.Constant(value=None) | ast.Subscript(value=ast.Name()):
            return not isinstance(node, ast.Subscript) or _is_type(node.value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in ("bytes", "bytearray", "memoryview", "int", "str", "float", "type") or (
                name[0].isupper() and not name.isupper()
            )
        case _:
            return False


def _outlives(target: ast.AST) -> bool:
    """Whether what is assigned to is still there after the function: an attribute, an item."""
    if isinstance(target, ast.Tuple | ast.List):
        return any(_outlives(part) for part in target.elts)
    return isinstance(target, ast.Attribute | ast.Subscript)
