//! `#[derive(Module)]`: a model's traversal, written from its fields so that none can be forgotten.

mod fields;

use fields::{Part, Role};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, parse_macro_input, parse_quote};

/// Implements `flambeau_nn::Module`, which documents it.
#[proc_macro_derive(Module, attributes(module))]
pub fn module(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derived(parse_macro_input!(input), quote!(::flambeau_nn))
}

/// The same for crates that know `flambeau_nn` as `flambeau::nn`, which exports this under the name `Module`.
#[proc_macro_derive(ModuleOfFlambeau, attributes(module))]
pub fn module_of_flambeau(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derived(parse_macro_input!(input), quote!(::flambeau::nn))
}

fn derived(input: DeriveInput, nn: TokenStream) -> proc_macro::TokenStream {
    implementation(input, &nn).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The implementation of `Module`, which visits the parts in their order.
fn implementation(input: DeriveInput, nn: &TokenStream) -> syn::Result<TokenStream> {
    let parts = fields::parts(&input)?;
    let shown = parts.iter().map(|part| visited(part, &quote!(&)));
    let changed = parts.iter().map(|part| visited(part, &quote!(&mut)));
    let (name, mut generics) = (&input.ident, input.generics.clone());
    bound(&mut generics, &parts, nn);
    let (with, of, when) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #with #nn::Module for #name #of #when {
            fn visit(&self, visitor: &mut #nn::Visitor<'_>) {
                let _ = &visitor;
                #(#shown)*
            }

            fn visit_mut(&mut self, visitor: &mut #nn::VisitorMut<'_>) {
                let _ = &visitor;
                #(#changed)*
            }
        }
    })
}

/// The visit of one field. Its span is the field's type, where the compiler then says that a type is no part of a model.
fn visited(part: &Part<'_>, borrow: &TokenStream) -> TokenStream {
    let (member, name) = (&part.member, &part.name);
    let method = match part.role {
        Role::Part => quote!(field),
        Role::Buffer => quote!(buffer),
    };
    quote_spanned! {part.ty.span()=> visitor.#method(#name, #borrow self.#member);}
}

/// A module with type parameters is one where the types of its fields are parts.
fn bound(generics: &mut syn::Generics, parts: &[Part<'_>], nn: &TokenStream) {
    if generics.type_params().next().is_none() {
        return;
    }
    let clause = generics.make_where_clause();
    for Part { ty, .. } in parts {
        clause.predicates.push(parse_quote!(#ty: #nn::Field));
    }
}
