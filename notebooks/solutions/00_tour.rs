// Solutions of 00_tour. `make solutions` puts each section behind its exercise.

// ==== tour-39
// The sum has one term for each $i$, and $v_2$ stands in one of them, $w_2^2 v_2$. So $\partial L / \partial v_2 =
// w_2^2$, with $w_2 = 2$. The value of $v_2$ does not matter: $L$ is linear in it.
let mine = 2f64.powi(2);
let loss = w.sqr()?.mul(&w2)?.sum_all()?;
let gradient = loss.backward()?.get(&w2).expect("w2 takes part in the loss").get(1)?;
check("exercise 1", mine, &gradient, 1e-9)?;

// ==== tour-41
// Along an eigenvector with eigenvalue $\lambda$ a step multiplies the error by $1 - \eta\lambda$. It is zero for
// $\eta = 1/\lambda$, here with the smallest eigenvalue. The descent as a whole does not converge with that step:
// along the steep direction the factor is $1 - \lambda_{\max}/\lambda_{\min}$, which the last line prints. It is
// far below $-1$, so that error grows with every step and changes its sign. The largest step that converges is
// below $2/\lambda_{\max}$.
let mine = 1.0 / smallest;
check("exercise 2", 1.0 - mine * smallest, 0.0, 1e-9)?;
println!("factor along the steep direction: {:.2}", 1.0 - mine * largest);
