//! The schema language: valid schemas are printed back unchanged, and errors have their reason and position.

use flambeau_codegen::{BaseType, FunctionSchema, Literal, Type};

/// Schemas of PyTorch's own file with all constructs of the language.
const ROUND_TRIPS: &[&str] = &[
    "zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
    "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values) -> (Tensor(a!) values, Tensor(b!) indices)",
    "chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
    "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()",
    "quantile(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
    "searchsorted(int[1] dim=[-2,-1], float eps=1e-05, str side=\"\\\"'\\\\\", int[2] stride=1) -> Tensor",
    "bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
    "native_dropout_backward(Tensor grad_output, bool[3] mask, int reduction=Mean) -> (Tensor output, Tensor)",
    "set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)",
    "to_sparse(Tensor self, *, Layout? layout=None, ScalarType dtype=long, MemoryFormat? f=contiguous_format) -> Tensor",
    "qscheme(Tensor self) -> QScheme",
    "_use_rnn(__torch__.torch.classes.rnn.CellParamsBase params, DeviceIndex device, Stream s) -> SymBool",
    "__iadd__.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)",
    "contract(Tensor(a|b) self, Tensor(a) other) -> Tensor(a|b)",
    "zero(Dimname[]? names, ConstQuantizerPtr q, GraphModule g) -> ()",
    "aten::neg(Tensor self) -> Tensor",
];

#[test]
fn schemas_print_back_as_they_were() {
    for text in ROUND_TRIPS {
        let schema = FunctionSchema::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        assert_eq!(schema.to_string(), *text);
    }
}

#[test]
fn the_parts_of_a_schema() {
    let text = "a.out(Tensor self, int[2]? size=1, *, float eps=1e-05, Tensor(a!) out) -> Tensor(a!)";
    let schema = FunctionSchema::parse(text).unwrap();
    assert_eq!((schema.positional.len(), schema.keyword.len(), schema.out.len()), (2, 1, 1));
    let int = Box::new(Type::Base(BaseType::Int));
    assert_eq!(schema.positional[1].ty, Type::Optional(Box::new(Type::List(int, Some(2)))));
    assert_eq!(schema.positional[1].default.as_ref().unwrap().value, Literal::Int(1));
    assert_eq!(schema.keyword[0].default.as_ref().unwrap().value, Literal::Float(1e-5));
    assert!(schema.is_out() && !schema.is_in_place() && !schema.is_functional() && !schema.is_view());
}

/// A schema, the position of the error, and a part of the message.
const REFUSED: &[(&str, usize, &str)] = &[
    ("add(Tensr self) -> Tensor", 4, "unknown type `Tensr`"),
    ("add(Tensor self) Tensor", 16, "expected ` -> `"),
    ("add(Tensor self) -> ", 20, "expected a type"),
    ("add(Tensor self)", 16, "expected ` -> `"),
    ("add(Tensor self -> Tensor", 15, "expected `, ` or `)`"),
    ("add Tensor self) -> Tensor", 0, "not an operator's name"),
    ("(Tensor self) -> Tensor", 0, "no name"),
    ("add.(Tensor self) -> Tensor", 0, "no overload name"),
    ("add_out(Tensor self) -> Tensor", 0, "reserved"),
    ("add(Tensor self, Tensor self) -> Tensor", 17, "given twice"),
    ("add(Tensor self, *, int a, *, int b) -> Tensor", 27, "`*` is given twice"),
    ("add(Tensor self, *) -> Tensor", 17, "no argument follows"),
    ("add(Tensor self,Tensor other) -> Tensor", 15, "expected `, ` or `)`"),
    ("add(Tensor self, ) -> Tensor", 17, "expected a type"),
    ("add(Tensor ) -> Tensor", 11, "argument's name"),
    ("add(Tensor) -> Tensor", 10, "argument's name"),
    ("add(Tensor self, int a=1, int b) -> Tensor", 26, "no default"),
    ("add(int a=1.5) -> Tensor", 10, "expected an integer"),
    ("add(int a=None) -> Tensor", 10, "expected an integer"),
    ("add(int a=9223372036854775808) -> Tensor", 10, "not a default"),
    ("add(bool a=true) -> Tensor", 11, "True or False"),
    ("add(str a=mean) -> Tensor", 10, "quoted text"),
    ("add(str a='mean) -> Tensor", 10, "no closing"),
    ("add(Tensor? a=1) -> Tensor", 14, "expected None"),
    ("add(Tensor a=None) -> Tensor", 13, "takes no default"),
    ("add(int a=01) -> Tensor", 10, "not a default"),
    ("add(int[2] a=[1,2,3]) -> Tensor", 13, "a list of 2"),
    ("add(Tensor(a!) self, Tensor(a) b) -> Tensor", 21, "belongs to another"),
    ("add(int[] a=1) -> Tensor", 12, "expected a list"),
    ("add(int[] a=[1,x]) -> Tensor", 12, "expected a list"),
    ("add(ScalarType a=f32x) -> Tensor", 17, "name of a scalar type"),
    ("add(int[0] a) -> Tensor", 8, "size of a list"),
    ("add(int[65] a) -> Tensor", 8, "size of a list, from 1 to 64, but got `65`"),
    ("add(int[ a) -> Tensor", 8, "expected `]`"),
    ("add(int?? a) -> Tensor", 8, "optional of an optional"),
    ("add(int[][][][][] a) -> Tensor", 17, "nests too deep"),
    ("add(int(a) x) -> Tensor", 7, "alias annotation"),
    ("add(Tensor(A) x) -> Tensor", 11, "letter"),
    ("add(Tensor(a x) -> Tensor", 12, "alias annotation"),
    ("add(Tensor self) -> (Tensor)", 20, "without parentheses"),
    ("add(Tensor self) -> (Tensor a, Tensor a)", 31, "given twice"),
    ("add(Tensor self) -> Tensor, Tensor", 26, "expected the end"),
    ("add(Tensor self) -> Tensor x y", 28, "expected the end"),
    ("add(Tensor self) -> Tensor(a)", 20, "no argument carries"),
    ("add_(Tensor self) -> Tensor", 0, "writes an argument called `self`"),
    ("add_(Tensor(a!) self) -> ()", 0, "returns its `self`"),
    ("add_(Tensor(a!) self) -> (Tensor(a!), Tensor)", 26, "all written"),
    ("add(Tensor self, *, Tensor(a!) out) -> ()", 0, "one return for each"),
    ("add(Tensor self, *, Tensor(a!) out, int b) -> Tensor(a!)", 36, "follows an `out=`"),
    ("add(*, Tensor(a!) x, Tensor(b!) y) -> (Tensor(b!), Tensor(a!))", 39, "be the argument `x`"),
    ("add(Tensor self, Tensor(a!) out) -> Tensor(a!)", 36, "must be `self`"),
];

#[test]
fn faults_name_their_byte() {
    for (text, at, message) in REFUSED {
        let error = FunctionSchema::parse(text).expect_err(text);
        assert!(error.message.contains(message), "{text}\n{error}");
        assert_eq!(error.at, *at, "{text}\n{error}");
    }
}
