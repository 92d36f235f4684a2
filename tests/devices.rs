//! Differentiable code must run on any device. On a machine without a GPU every tensor is on the CPU, so only the
//! source can tell: whatever names the CPU or copies a tensor to the host must say `Host:` in the documentation of its
//! function, of its `impl` block or of its file.

use std::path::Path;

use rustmap::syn::visit::{self, Visit};
use rustmap::{documentation, parse, proc_macro2, read, syn};

/// Methods of candle that copy to the host, and ours that reads whatever holds numbers.
const COPIES: [&str; 6] = ["to_vec0", "to_vec1", "to_vec2", "to_vec3", "to_scalar", "numbers"];

struct Walk {
    file: String,
    /// Whether the places around the code say `Host:`, from the outside in.
    said: Vec<bool>,
    found: Vec<String>,
}

fn says_host(attributes: &[syn::Attribute]) -> bool {
    documentation(attributes).contains("Host:")
}

impl Walk {
    fn inside(&mut self, attributes: &[syn::Attribute], walk: impl FnOnce(&mut Walk)) {
        self.said.push(says_host(attributes));
        walk(self);
        self.said.pop();
    }

    fn meet(&mut self, what: &str, span: proc_macro2::Span) {
        if !self.said.contains(&true) {
            self.found.push(format!("{}:{}: {what}", self.file, span.start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.inside(&item.attrs, |walk| visit::visit_item_fn(walk, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.inside(&item.attrs, |walk| visit::visit_impl_item_fn(walk, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.inside(&item.attrs, |walk| visit::visit_item_impl(walk, item));
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let method = call.method.to_string();
        // Ours takes nothing: others of the name read something else.
        if COPIES.contains(&method.as_str()) && (method != "numbers" || call.args.is_empty()) {
            self.meet(&method, call.method.span());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let [.., device, cpu] = &words[..]
            && device == "Device"
            && cpu == "Cpu"
        {
            self.meet("Device::Cpu", path.segments[0].ident.span());
        }
        visit::visit_path(self, path);
    }
}

fn violations(name: &Path, file: &syn::File) -> Vec<String> {
    let file_says = says_host(&file.attrs);
    let mut walk = Walk { file: name.display().to_string(), said: vec![file_says], found: Vec::new() };
    walk.visit_file(file);
    walk.found
}

#[test]
fn nothing_leaves_its_device_without_saying_so() {
    let sources = read(Path::new("."), "src").unwrap();
    let mut found: Vec<_> = sources.iter().flat_map(|(name, file)| violations(name, file)).collect();
    found.sort();
    assert!(sources.len() > 50, "only {} files were read", sources.len());
    assert!(
        found.is_empty(),
        "say `Host:` in the documentation, or stay on the device:\n{}",
        found.join("\n")
    );
}

#[test]
fn planted_violations_are_found_and_declared_ones_are_not() {
    let planted = "
        fn quiet(t: &Tensor) -> f64 { t.to_scalar::<f64>().unwrap() }
        struct S;
        impl S { fn method(&self, t: &Tensor) { let _ = t.to_vec1::<f32>(); } }
        fn device() -> Device { candle::Device::Cpu }
        fn nested() { let f = |t: &Tensor| t.to_vec2::<f64>(); }
        fn read(t: impl AsF64) -> f64 { t.numbers().unwrap()[0] }
    ";
    let violations =
        |name: &str, text: &str| violations(Path::new(name), parse(Path::new(name), text).unwrap());
    let found = violations("planted.rs", planted);
    assert_eq!(
        found,
        [
            "planted.rs:2: to_scalar",
            "planted.rs:4: to_vec1",
            "planted.rs:5: Device::Cpu",
            "planted.rs:6: to_vec2",
            "planted.rs:7: numbers",
        ]
    );
    for declared in [
        "/// Reads. Host: one number.\nfn f(t: &Tensor) -> f64 { t.to_scalar::<f64>().unwrap() }",
        "/// Host: all of it.\nimpl S { fn f(t: &Tensor) { t.to_vec1::<f64>(); } }",
        "//! Host: this file.\nfn f(t: &Tensor) { t.to_vec1::<f64>(); }",
        "fn f(v: &[f64]) -> Vec<f64> { v.to_vec() }",
        "fn f(file: &Arrays) { file.numbers(\"scores\"); }",
        "fn f(d: Device) -> bool { matches!(d.location(), DeviceLocation::Cpu) }",
    ] {
        assert!(violations("declared.rs", declared).is_empty(), "{declared}");
    }
}
