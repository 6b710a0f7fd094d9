//! The attribute `boxed`.

use proc_macro2::Span;
use syn::visit_mut::{VisitMut, visit_type_reference_mut};
use syn::{
    Block, FnArg, GenericParam, ImplItem, Item, Lifetime, ParenthesizedGenericArguments, Pat, PatIdent,
    ReceiverKind, ReturnType, Signature, Stmt, Type, TypeImplTrait, TypeReference, Visibility, parse_quote,
};

pub(crate) fn box_futures(item: &mut Item) {
    match item {
        Item::Fn(function) => box_future(&function.vis, &mut function.sig, &mut function.block),
        Item::Impl(item) => item.items.iter_mut().for_each(|item| {
            if let ImplItem::Fn(function) = item {
                box_future(&function.vis, &mut function.sig, &mut function.block);
            }
        }),
        _ => {}
    }
}

fn is_generic(signature: &mut Signature) -> bool {
    struct FindImpl(bool);
    impl VisitMut for FindImpl {
        fn visit_type_impl_trait_mut(&mut self, _: &mut TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut found = FindImpl(signature.generics.type_params().next().is_some());
    found.visit_signature_mut(signature);
    found.0
}

fn box_future(visibility: &Visibility, signature: &mut Signature, block: &mut Block) {
    if !matches!(visibility, Visibility::Public(_)) || signature.asyncness.is_none() || is_generic(signature)
    {
        return;
    }
    signature.asyncness = None;
    let mut held = Vec::<Stmt>::new();
    for input in &mut signature.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                if let ReceiverKind::Reference(_, lifetime @ None, _) = &mut receiver.kind {
                    *lifetime = Some(parse_quote!('receiver));
                    signature.generics.params.push(parse_quote!('receiver));
                }
                signature.generics.make_where_clause().predicates.push(parse_quote!(Self: 'future));
            }
            FnArg::Typed(argument) => {
                NameLifetimes("'future").visit_type_mut(&mut argument.ty);
                match &*argument.pat {
                    Pat::Ident(PatIdent { ident, .. }) => held.push(parse_quote!(let _ = &#ident;)),
                    Pat::Wild(_) => {
                        held.push(parse_quote!(compile_error!("`boxed` needs the argument's name");))
                    }
                    // What a pattern takes out of an argument is what the body uses.
                    _ => {}
                }
            }
        }
    }
    let output: Type = match &mut signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, output) => {
            NameLifetimes("'receiver").visit_type_mut(output);
            parse_quote!(#output)
        }
    };
    for parameter in &mut signature.generics.params {
        if let GenericParam::Lifetime(parameter) = parameter {
            parameter.bounds.push(parse_quote!('future));
        }
    }
    signature.generics.params.insert(0, parse_quote!('future));
    signature.output = parse_quote! {
        -> ::std::pin::Pin<::std::boxed::Box<dyn ::std::future::Future<Output = #output> + Send + 'future>>
    };
    let statements = &block.stmts;
    // `None` tells the compiler the type that `?` converts errors to. An argument that the body does not use, as the permit of the
    // caller, lives as long as the future, as in any asynchronous function.
    *block = parse_quote!({
        ::std::boxed::Box::pin(async move {
            if let Some(output) = None::<#output> {
                return output;
            }
            #(#held)*
            #(#statements)*
        })
    });
}

/// Names the lifetimes that are left out. Those of an output are the receiver's.
struct NameLifetimes(&'static str);

impl NameLifetimes {
    fn lifetime(&self) -> Lifetime {
        Lifetime::new(self.0, Span::call_site())
    }
}

impl VisitMut for NameLifetimes {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        reference.lifetime.get_or_insert(self.lifetime());
        visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = self.lifetime();
        }
    }

    /// The lifetimes in `Fn(&str)` are the function's own.
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}
}
