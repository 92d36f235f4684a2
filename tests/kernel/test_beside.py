"""Other crates on the library's candle: they share its copy, so their gradients are right, and nothing is refused."""

import kernel as launcher
import notebook
from conftest import text_of
from test_kernel import CHECK_KERNEL

# (5, 7) through weights (2, 3) and bias 1 is 32, and its square has the gradients 2 · 32 · (5, 7) and 2 · 32.
LAYER = [
    "let vars = VarMap::new();",
    "use candle_transformers::models::with_tracing;",
    "let layer = with_tracing::linear(2, 1, VarBuilder::from_varmap(&vars, DType::F64, &Device::Cpu))?;",
    "let weight = vars.data().lock().expect(\"nobody holds it\")[\"weight\"].clone();",
    "let bias = vars.data().lock().expect(\"nobody holds it\")[\"bias\"].clone();",
    "weight.set(&Tensor::new(&[[2f64, 3.0]], &Device::Cpu)?)?; bias.set(&Tensor::new(&[1f64], &Device::Cpu)?)?;",
    "let x = Tensor::new(&[[5f64, 7.0]], &Device::Cpu)?;",
    "let loss = layer.forward(&x)?.sqr()?.sum_all()?;",
    "let grads = loss.backward()?;",
]


def test_a_crate_that_was_built_with_the_kernel_has_right_gradients(tmp_path, monkeypatch):
    monkeypatch.setenv("LASTLAYER_WITH", "candle-transformers")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    launcher.warm(quiet=True)
    launcher.write_spec(tmp_path)
    monkeypatch.delenv("LASTLAYER_WITH")  # the kernel's specification has it
    with notebook.Kernel() as kernel:
        kernel.execute("use lastlayer::prelude::*;")
        assert "| kernel | evcxr_jupyter" in text_of(kernel, CHECK_KERNEL)
        for cell in LAYER:
            assert text_of(kernel, cell) == "", cell
        for name, truth in (("weight", "[[320.0, 448.0]]"), ("bias", "[64.0]")):
            line = f'check("{name}", grads.get(&{name}).expect("a gradient"), ndarray::array!{truth}, 1e-12)?;'
            assert ": exact" in text_of(kernel, line)
        assert "Compiling" not in kernel.log_text(), kernel.log_text()


def test_candle_itself_may_be_named_in_the_version_of_the_library():
    with notebook.Kernel() as kernel:
        kernel.execute(f':dep candle-core = "{launcher.CANDLE}"')
        kernel.execute("use lastlayer::prelude::*;")
        assert "| kernel | evcxr_jupyter" in text_of(kernel, CHECK_KERNEL)
        for cell in (
            "let a = candle_core::Var::new(3f64, &candle_core::Device::Cpu)?;",
            "let b = Var::new(5f64, &Device::Cpu)?;",
            "let product = (a.as_tensor() * b.as_tensor())?;",
            "let grads = product.backward()?;",
        ):
            assert text_of(kernel, cell) == "", cell
        assert ": exact" in text_of(kernel, 'check("da", grads.get(&a).expect("a gradient"), 5.0, 1e-12)?;')
        assert ": exact" in text_of(kernel, 'check("db", grads.get(&b).expect("a gradient"), 3.0, 1e-12)?;')
        assert '["0.11.1"]' in text_of(kernel, "lastlayer::kernel::Evidence::gather().candle")
